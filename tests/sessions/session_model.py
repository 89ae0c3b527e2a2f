"""A model of sessions as plain dicts, and random programs on which a real store must agree with it."""

from hypothesis import strategies as st

from toolyard.model.errors import SessionError, SessionExistsError
from toolyard.sessions.store.base import Append, Create, Delete, Intend, Key, SessionInfo, Withdraw

KEYS = [Key("ann", "1"), Key("ann", "2"), Key("ann", "3"), Key("bob", "1"), Key("bob", "é"), Key("", "")]

keys = st.sampled_from(KEYS)
data = st.binary(max_size=3)
picks = st.integers(0, 20)
# Forks and appends choose a live session (`picks` modulo their number): with random keys, most programs would be
# refused.
actions = st.one_of(
    st.tuples(st.just("create"), keys, st.lists(data, max_size=3), data),
    st.tuples(st.just("fork"), picks, picks, picks, data),
    st.tuples(st.just("fork"), picks, picks, picks, data),
    st.tuples(st.just("append"), picks, data, data, st.sampled_from([1, 1, 1, 1, 0, 2])),
    st.tuples(st.just("append"), picks, data, data, st.just(1)),
    st.tuples(st.just("intend"), picks, data, st.sampled_from([1, 1, 0, 2])),
    st.tuples(st.just("withdraw"), picks, st.sampled_from([1, 1, 0])),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("reopen")),
)
programs = st.lists(actions, min_size=5, max_size=40).map(
    lambda program: [("create", KEYS[0], [b"1", b"2", b"3"], b"s"), *program]
)


class Model:
    """Expected contents of the store. Forks are full copies here, which keeps the model simple."""

    def __init__(self):
        self.sessions = {}
        self.branches = {}
        self.made = 0

    def pick(self, number):
        """The key of an existing session, or the first key if there is none."""
        return list(self.sessions)[number % len(self.sessions)] if self.sessions else KEYS[0]

    def write(self, action):
        """The write for an action, and the error it should raise, if any; without one, updates the model."""
        self.made += 1
        return getattr(self, "_" + action[0])(*action[1:])

    def _create(self, key, entries, changes):
        branch = f"b{self.made}"
        write = Create(key, branch, entries=tuple(entries), changes=changes, used=self.made)
        if key in self.sessions:
            return write, SessionExistsError
        self.branches[branch] = (None, 0)
        self.sessions[key] = {
            "branch": branch,
            "entries": [(entry, b"", branch) for entry in entries],
            "changes": [changes],
            "intent": None,
            "used": self.made,
        }
        return write, None

    def _fork(self, child, parent, base, changes):
        branch = f"b{self.made}"
        key = KEYS[child % len(KEYS)]
        parent = self.sessions.get(self.pick(parent))
        base %= len(parent["entries"]) + 2 if parent else 1
        parent_branch = parent["branch"] if parent else "never"
        write = Create(key, branch, parent=parent_branch, base=base, changes=changes, used=self.made)
        if key in self.sessions:
            return write, SessionExistsError
        if parent is None or base > len(parent["entries"]):
            return write, SessionError
        self.branches[branch] = (parent_branch, base)
        self.sessions[key] = {
            "branch": branch,
            "entries": parent["entries"][:base],
            "changes": [*parent["changes"], changes],
            "intent": None,
            "used": self.made,
        }
        return write, None

    def _append(self, who, entry, changes, step):
        key = self.pick(who)
        session = self.sessions.get(key)
        seq = (len(session["entries"]) if session else 0) + step
        branch = session["branch"] if session else "never"
        write = Append(key, branch, seq, entry, changes, used=self.made)
        if session is None or step != 1:
            return write, SessionError
        session["entries"].append((entry, changes, branch))
        session.update(intent=None, used=self.made)
        return write, None

    def _intend(self, who, call, step):
        key = self.pick(who)
        session = self.sessions.get(key)
        seq = (len(session["entries"]) if session else 0) + step
        write = Intend(key, session["branch"] if session else "never", seq, call)
        if session is None or step != 1 or session["intent"]:
            return write, SessionError
        session["intent"] = (seq, call)
        return write, None

    def _withdraw(self, who, step):
        key = self.pick(who)
        session = self.sessions.get(key)
        seq = (len(session["entries"]) if session else 0) + step
        if session and step == 1:
            session["intent"] = None
        return Withdraw(key, session["branch"] if session else "never", seq), None

    def _delete(self, key):
        self.sessions.pop(key, None)
        return Delete(key), None

    def reachable(self):
        """The rows that sessions need: branches, and (branch, seq) of entries."""
        branches, entries = set(), set()
        for session in self.sessions.values():
            branch = session["branch"]
            while branch is not None:
                branches.add(branch)
                branch = self.branches[branch][0]
            entries |= {(branch, seq) for seq, (_, _, branch) in enumerate(session["entries"], 1)}
        return branches, entries

    def infos(self):
        return [
            SessionInfo(key.session_id, key.owner, len(session["entries"]), session["used"])
            for key, session in sorted(self.sessions.items(), key=lambda item: (item[0].owner, item[0].session_id))
        ]


def check(store, model):
    """Check that the store agrees with the model and has no unreachable rows."""
    for key in KEYS:
        stored, session = store.load(key), model.sessions.get(key)
        if session is None:
            assert stored is None
            continue
        assert stored.branch == session["branch"]
        assert [entry.seq for entry in stored.entries] == list(range(1, len(session["entries"]) + 1))
        assert [(e.entry, e.changes) for e in stored.entries] == [(e, c) for e, c, _ in session["entries"]]
        assert list(stored.changes) == session["changes"]
        assert stored.intent == session["intent"]
        assert stored.used == session["used"]
        for seq in range(len(session["entries"]) + 1):
            newer = store.newer(key, session["branch"], seq)
            assert list(newer.entries) == list(stored.entries[seq:])
            assert (list(newer.changes), newer.intent) == ([], stored.intent)
    assert store.sessions() == model.infos()
    assert store.count() == len(model.sessions)
    owners = [key.owner for key in model.sessions]
    assert [store.count(owner) for owner in owners] == [owners.count(owner) for owner in owners]
    branches, entries = model.reachable()
    assert store._read(lambda run: {row[0] for row in run("SELECT id FROM branches", ()).fetchall()}) == branches
    assert store._read(lambda run: set(run("SELECT branch, seq FROM entries", ()).fetchall())) == entries
    intents = {session["branch"] for session in model.sessions.values() if session["intent"]}
    assert store._read(lambda run: {row[0] for row in run("SELECT branch FROM intents", ()).fetchall()}) == intents


def run(program, open_store):
    """Run the same program on a store and the model; at the end every session is deleted.

    Returns the number of comparisons.
    """
    store, model, compared = open_store(), Model(), 0
    try:
        for action in [*program, *(("delete", key) for key in KEYS)]:
            if action[0] == "reopen":
                store.close()
                store = open_store()
                continue
            write, expected = model.write(action)
            raised = None
            try:
                store.write(write)
            except SessionError as error:
                raised = type(error)
            assert raised is expected, write
            check(store, model)
            compared += 1
    finally:
        store.close()
    return compared
