"""`History` against a plain list that is copied for every fork."""

import sys

from hypothesis import given, settings, strategies as st

from conftest import examples
from toolyard.sessions.history import History

actions = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "fork", "fork_at", "draft", "digest", "forget"]),
        st.integers(0, 50),
        st.binary(max_size=3),
    ),
    # Long programs by themselves: twenty short ones find none of the faults that forks of forks have.
    min_size=30,
    max_size=60,
)


def made(entries):
    history = History()
    for entry in entries:
        history.append(entry)
    return history


@settings(max_examples=examples(300))
@given(actions, st.integers(0, 60))
def test_every_history_of_a_random_family_agrees_with_a_list(program, start):
    family, forgotten = [(History(), [])], set()
    for action, pick, entry in program:
        number = pick % len(family)
        history, model = family[number]
        if number in forgotten:
            continue
        if action == "append":
            history.append(entry)
            model.append(entry)
        elif action == "fork":
            family.append((history.fork(), list(model)))
        elif action == "fork_at":
            at = pick % (len(model) + 1)
            family.append((history.fork(at), model[:at]))
        elif action == "draft":
            draft = history.fork(throw_away=True)
            draft.append(entry)
            assert list(draft) == [*model, entry]
            assert draft.digest() == made([*model, entry]).digest()
        elif action == "digest":
            assert history.digest() == made(model).digest()
            at = len(model) - pick % (len(history._tail) + 1)
            assert history.digest(at) == made(model[:at]).digest()
        else:
            history.forget()
            forgotten.add(number)
    for number, (history, model) in enumerate(family):
        if number in forgotten:
            continue
        assert len(history) == len(model)
        assert list(history) == model
        assert list(history.since(start)) == model[start:]
        assert history.digest() == made(model).digest()


def test_the_digest_tells_order_and_boundaries_apart():
    digests = {
        made(entries).digest() for entries in ([], [b""], [b"", b""], [b"ab"], [b"a", b"b"], [b"b", b"a"], [b"abb"])
    }
    assert len(digests) == 7


def test_a_digest_taken_early_goes_on_to_be_right():
    history = History()
    for count in range(1, 30):
        history.append(b"%d" % count)
        assert history.digest() == made([b"%d" % n for n in range(1, count + 1)]).digest()


def test_a_reader_sees_what_was_there_when_it_began():
    history = made([b"a", b"b"])
    reader = iter(history)
    assert next(reader) == b"a"
    history.append(b"c")
    assert list(reader) == [b"b"]


def test_ten_thousand_forks_of_forks_read_hash_and_end_without_recursion():
    line = [made([b"0"])]
    for number in range(1, 10_000):
        child = line[-1].fork()
        child.append(b"%d" % number)
        line.append(child)
    last = line[-1]
    assert len(last) == 10_000
    assert list(last.since(9_998)) == [b"9998", b"9999"]
    assert last.digest() == made([b"%d" % n for n in range(10_000)]).digest()
    assert list(line[5]) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    del line, child, last


def test_forking_without_appending_does_not_lengthen_the_line():
    history = made([b"a"])
    for _ in range(1000):
        history = history.fork()
    assert len(history._segments()) == 1


def work_of(action):
    """Lines run, a count that does not depend on the machine."""
    lines = 0

    def trace(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)
    return lines


def test_forking_appending_and_dropping_cost_the_same_however_long_the_history_is():
    def draft(history):
        fork = history.fork(throw_away=True)
        fork.append(b"x")
        len(fork)

    short, long = made([b"e"] * 10), made([b"e"] * 50_000)
    assert work_of(lambda: draft(short)) == work_of(lambda: draft(long))
    assert work_of(short.fork) == work_of(long.fork)
    fork = long.fork()
    assert fork._before.entries is long._tail, "shared, not copied"


def test_a_throw_away_fork_keeps_nothing_from_being_forgotten_and_a_kept_one_does():
    history = made([b"a", b"b"])
    history.fork(throw_away=True)
    kept = history.fork()
    history.append(b"c")
    history.fork(throw_away=True)
    tail = history._tail
    history.forget()
    assert [entry for entry, *_ in tail] == [b"a", b"b"]
    assert list(kept) == [b"a", b"b"]


def test_a_later_fork_behind_an_earlier_entry_takes_nothing_from_the_first():
    history = made([b"a", b"b", b"c"])
    whole, part = history.fork(), history.fork(1)
    history.forget()
    assert list(whole) == [b"a", b"b", b"c"]
    assert list(part) == [b"a"]
    assert (whole.size, part.size) == (3, 1)
