"""Many writers, few transactions, and nothing lost or told twice."""

import threading
import time
from collections import Counter

import pytest
from waiting import SOON

from toolyard.model.errors import SessionError
from toolyard.sessions.store.group_commit import GroupCommit, StoreFailing


class Journal:
    """An `apply` that keeps what it is given, and can be stopped on the way."""

    def __init__(self):
        self.transactions = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.entered = threading.Event()
        self.bad = set()

    @property
    def written(self):
        return [op for ops in self.transactions for op in ops]

    def __call__(self, ops, receipt):
        self.entered.set()
        self.go_on.wait(SOON)
        for op in ops:
            if op in self.bad:
                raise ValueError(op)
        self.transactions.append(list(ops))
        receipt.append(True)


def wait_until(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("did not happen")


def start(call, *args):
    thread = threading.Thread(target=call, args=args)
    thread.start()
    return thread


def outcomes(group, ops):
    """Write each op in a thread of its own; once all wait, what became of them."""
    told = {}

    def write(op):
        try:
            group.write(op)
            told[op] = None
        except BaseException as error:
            told[op] = error

    threads = [start(write, op) for op in ops]
    return threads, told


def behind_a_slow_leader(journal, group, ops):
    journal.go_on.clear()
    leader = start(group.write, "leader")
    journal.entered.wait(SOON)
    threads, told = outcomes(group, ops)
    wait_until(lambda: len(group._queue) == len(ops) + 1)
    journal.go_on.set()
    for thread in [leader, *threads]:
        thread.join()
    return told


def test_a_single_writer_stays_in_its_thread():
    seen = []
    group = GroupCommit(lambda ops, receipt: (seen.append(threading.current_thread()), receipt.append(1)))
    group.write("a")
    assert seen == [threading.current_thread()]
    assert group._thread is None


def test_writers_that_wait_share_the_next_transaction():
    journal = Journal()
    group = GroupCommit(journal)
    told = behind_a_slow_leader(journal, group, range(15))
    assert told == dict.fromkeys(range(15))
    assert len(journal.transactions) == 2
    assert sorted(journal.transactions[1]) == list(range(15))


def test_a_transaction_has_a_largest_size():
    journal = Journal()
    group = GroupCommit(journal, most=4)
    behind_a_slow_leader(journal, group, range(10))
    assert [len(ops) for ops in journal.transactions] == [1, 4, 4, 2]


def test_one_bad_write_in_a_batch_fails_alone():
    journal = Journal()
    journal.bad = {3}
    group = GroupCommit(journal)
    told = behind_a_slow_leader(journal, group, range(6))
    assert isinstance(told.pop(3), ValueError)
    assert set(told.values()) == {None}
    assert Counter(journal.written) == Counter(["leader", 0, 1, 2, 4, 5])


def test_a_store_that_fails_is_not_tried_once_for_each_writer():
    tries = []
    entered, go_on = threading.Event(), threading.Event()

    def apply(ops, receipt):
        tries.append(ops)
        if len(tries) == 1:
            entered.set()
            go_on.wait(SOON)
            receipt.append(True)
            return
        raise StoreFailing("disk full")

    group = GroupCommit(apply)
    leader = start(group.write, "leader")
    entered.wait(SOON)
    threads, told = outcomes(group, range(5))
    wait_until(lambda: len(group._queue) == 6)
    go_on.set()
    for thread in [leader, *threads]:
        thread.join()
    assert len(tries) == 2
    assert all(isinstance(error, StoreFailing) for error in told.values())
    assert len({id(error) for error in told.values()}) == 5


@pytest.mark.parametrize("committed", [False, True])
def test_an_interrupted_leader_neither_hangs_its_followers_nor_writes_twice(committed):
    written = []
    entered, go_on = threading.Event(), threading.Event()

    def apply(ops, receipt):
        # The second transaction carries the followers and is cut short, before or right after its commit.
        cut = len(written) == 1 and not go_on.is_set()
        if committed or not cut:
            written.append(list(ops))
            receipt.append(True)
        if len(written) == 1 and not entered.is_set():
            entered.set()
            wait_until(lambda: len(group._queue) == 6)
        elif cut:
            go_on.set()
            raise KeyboardInterrupt

    group = GroupCommit(apply)
    leader = start(group.write, "leader")
    entered.wait(SOON)
    threads, told = outcomes(group, range(5))
    for thread in [leader, *threads]:
        thread.join()
    interrupted = [op for op, error in told.items() if isinstance(error, KeyboardInterrupt)]
    assert len(interrupted) == 1
    assert [error for error in told.values() if error is not None and not isinstance(error, KeyboardInterrupt)] == []
    counts = Counter(op for ops in written for op in ops)
    assert max(counts.values()) == 1
    assert all(counts[op] == 1 for op in range(5) if op not in interrupted)


def test_a_submitted_write_is_answered_exactly_once():
    journal = Journal()
    journal.bad = {(2, 7)}
    group = GroupCommit(journal)
    answers = []

    def submit(worker):
        for number in range(200):
            op = (worker, number)
            group.submit(op, lambda error, op=op: answers.append((op, type(error))))

    threads = [start(submit, worker) for worker in range(8)]
    for number in range(200):
        group.write(("sync", number))
    for thread in threads:
        thread.join()
    group.close()
    told = dict(answers)
    assert len(answers) == len(told) == 1600
    assert told.pop((2, 7)) is ValueError
    assert set(told.values()) == {type(None)}
    assert Counter(journal.written) == Counter([*told, *(("sync", number) for number in range(200))])
    for worker in range(8):
        mine = [number for who, number in journal.written if who == worker]
        assert mine == sorted(mine)


def test_a_write_is_answered_only_after_its_commit():
    journal = Journal()
    journal.go_on.clear()
    group = GroupCommit(journal)
    answered = threading.Event()
    group.submit("a", lambda error: answered.set())
    journal.entered.wait(SOON)
    assert not answered.is_set()
    journal.go_on.set()
    answered.wait(SOON)
    assert journal.written == ["a"]
    group.close()


def test_a_callback_that_raises_does_not_stop_the_others(caplog):
    group = GroupCommit(Journal())
    answers = []

    def broken(error):
        raise RuntimeError("loop is closed")

    group.submit("a", broken)
    group.submit("b", answers.append)
    group.close()
    assert answers == [None]
    assert "loop is closed" in caplog.text


def test_an_interrupt_on_the_writer_thread_is_told_to_the_caller():
    answers = []

    def apply(ops, receipt):
        raise SystemExit

    group = GroupCommit(apply)
    group.submit("a", answers.append)
    group.submit("b", answers.append)
    group.close()
    assert [type(answer) for answer in answers] == [SystemExit, SystemExit]


def test_closing_commits_what_was_submitted():
    journal = Journal()
    journal.go_on.clear()
    group = GroupCommit(journal)
    answers = []
    for number in range(50):
        group.submit(number, answers.append)
    closing = start(group.close)
    journal.go_on.set()
    closing.join()
    assert journal.written == list(range(50))
    assert answers == [None] * 50


def test_a_callback_may_close():
    group = GroupCommit(Journal())
    closed = threading.Event()
    group.submit("a", lambda error: (group.close(), closed.set()))
    assert closed.wait(SOON)
    group.close()


def test_after_closing_nothing_is_accepted():
    journal = Journal()
    group = GroupCommit(journal)
    group.close()
    group.close()
    answers = []
    with pytest.raises(SessionError, match="closed"):
        group.write("late")
    group.submit("late", answers.append)
    assert [type(answer) for answer in answers] == [SessionError]
    assert journal.written == []
