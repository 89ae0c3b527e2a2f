"""Any sequence of operations has the same results as in process."""

from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from client.served import served
from client.yard import make_registry
from conftest import examples
from toolyard import PythonToolEngine, ToolCall
from toolyard.client import RemoteToolEngine
from toolyard.model.errors import ToolyardError

IDS = st.sampled_from(["a", "b/c", "%2F", "..", "d e"])
CALLS = st.lists(
    st.one_of(
        st.builds(
            lambda a, b: ToolCall("desk::add", {"a": a, "b": b}), st.integers(), st.integers() | st.text(max_size=3)
        ),
        st.builds(lambda city: ToolCall("desk::overloaded", {"city": city}), st.text(max_size=5) | st.none()),
        st.builds(lambda value: ToolCall("wörk/shop::größe 100%", {"value": value}), st.text(max_size=5)),
        st.sampled_from(
            [ToolCall("desk::nothing"), ToolCall("desk::unanswered"), ToolCall("desk::refuse", {"reason": "r"})]
        ),
    ),
    max_size=3,
)


def outcome(work):
    try:
        found = work()
    except ToolyardError as error:
        return type(error)
    return [result.to_dict() for result in found] if isinstance(found, list) else found


class Uses(RuleBasedStateMachine):
    states = Bundle("states")

    @initialize()
    def begin(self):
        self.service = served(make_registry(), rate=1e6, burst=1e6)
        self.remote = RemoteToolEngine(self.service.__enter__().url)
        self.local = PythonToolEngine(make_registry())

    def teardown(self):
        if hasattr(self, "remote"):
            self.remote.close()
            self.local.close()
            self.service.__exit__(None, None, None)

    def both(self, work):
        here, there = outcome(lambda: work(self.local)), outcome(lambda: work(self.remote))
        assert there == here
        return here

    @rule(session=IDS)
    def set_up(self, session):
        self.both(lambda engine: engine.setup(session))

    @rule(session=IDS, origin=IDS)
    def fork(self, session, origin):
        self.both(lambda engine: engine.setup(session, fork_of=origin))

    @rule(session=IDS, calls=CALLS)
    def execute(self, session, calls):
        self.both(lambda engine: engine.execute(session, calls))

    @rule(session=IDS, calls=CALLS)
    def simulate(self, session, calls):
        self.both(lambda engine: engine.simulate(session, calls))

    @rule(session=IDS)
    def tear_down(self, session):
        self.both(lambda engine: engine.teardown(session))

    @rule(target=states, session=IDS)
    def state(self, session):
        return self.both(lambda engine: engine.get_session_state(session))

    @rule(session=IDS, state=states)
    def restore(self, session, state):
        self.both(lambda engine: engine.setup(session, initial_state=state))

    @invariant()
    def hashes_are_equal(self):
        if hasattr(self, "remote"):
            self.both(lambda engine: engine.state_hash("a"))


TestUses = Uses.TestCase
TestUses.settings = settings(max_examples=examples(10), stateful_step_count=20, deadline=None)
