"""Who may call what: rules, budgets, approvals, and the config block that says so."""

import fnmatch
import threading

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from toolyard.calls import policy as policy_module
from toolyard.calls.policy import Ask, Budget, Policy, PolicyOptions, Rule
from toolyard.model import Effects, Tool
from toolyard.model.errors import ConfigError, Denied
from toolyard.schema.options_schema import options_schema

POLICY_SCHEMA = options_schema(PolicyOptions)

GET = Tool("get", "weather", effects=Effects.READ, tags=("public", "slow"))
PAY = Tool("send", "pay", effects=Effects.WRITE, tags=("money",))


def check(policy, tool=GET, session="s1", counts=None, arguments=None, mode="execute", **caller):
    """As the call path does it, without a record of what is asked."""
    line = policy.check(tool, session_id=session, counts=counts or {}, **caller)
    if line is not None:
        try:
            answer = policy.ask_approver(Ask(tool, session, arguments or {}, mode))
        except Exception as error:
            answer = error
        policy.check_answer(line, tool, answer)
        policy.spend(tool, caller.get("shared"))


def allowed(policy, tool=GET, session="s1", counts=None, **caller):
    try:
        check(policy, tool, session, counts, **caller)
    except Denied:
        return False
    return True


def denial(policy, *args, **options):
    with pytest.raises(Denied) as caught:
        check(policy, *args, **options)
    assert caught.value.info.code == "tool.denied"
    assert caught.value.info.effect == "none"
    return caught.value.info


def test_without_rules_everything_is_allowed_and_the_policy_says_it_is_trivial():
    policy = Policy()
    assert policy.trivial
    assert not policy.counts_calls
    check(policy)


def test_default_deny_is_one_line_and_the_error_says_which_rule_to_add():
    policy = Policy(default="deny")
    assert not policy.trivial
    info = denial(policy)
    assert "policy.default" in info.message
    assert "{allow: 'weather::get'}" in info.hint
    assert info.details == {"default": "deny"}


def test_a_policy_that_only_allows_is_trivial_too():
    assert Policy([Rule("allow", "weather::*")]).trivial
    assert not Policy([Rule("allow")], default="deny").trivial
    assert not Policy([Rule("ask")]).trivial
    assert not Policy(budgets=[Budget(5)]).trivial


def test_a_denial_names_the_rule_by_number_and_text_and_repeats_no_argument():
    policy = Policy([Rule("allow", "weather::*"), Rule("deny", "pay::*", effects=[Effects.WRITE])])
    info = denial(policy, PAY, arguments={"to": "hunter22"})
    assert "policy.rules[1]" in info.message
    assert "deny pay::*; effects write" in info.message
    assert info.details == {"rule": {"number": 1, "text": "deny pay::*; effects write"}}
    assert "hunter22" not in str(info)


def test_globs_are_case_sensitive_and_a_star_crosses_the_separator():
    assert not allowed(Policy([Rule("deny", "weat*get")]))
    assert allowed(Policy([Rule("deny", "Weather::*")]))
    assert not allowed(Policy([Rule("deny", ["pay::*", "*::ge?"])]))
    assert allowed(Policy([Rule("deny", "weather::ge")]))


def test_every_condition_must_hold_and_any_tag_will_do():
    rule = Rule("deny", "*", effects=[Effects.READ, Effects.UNKNOWN], tags=["slow", "big"], sessions="prod-*")
    policy = Policy([rule])
    assert not allowed(policy, GET, "prod-1")
    assert allowed(policy, GET, "test-1")
    assert allowed(policy, GET.replace(tags=("public",)), "prod-1")
    assert allowed(policy, GET.replace(effects=Effects.WRITE), "prod-1")


def test_a_redefined_tool_of_the_same_name_is_judged_anew():
    policy = Policy([Rule("deny", effects=[Effects.WRITE]), Rule("deny", tags=["money"])])
    assert allowed(policy, GET)
    assert not allowed(policy, GET.replace(effects=Effects.WRITE))
    assert not allowed(policy, GET.replace(tags=("money",)))
    assert allowed(policy, GET)


def test_a_tool_is_compared_with_the_rules_once(monkeypatch):
    compared = []
    monkeypatch.setattr(policy_module.RuleLine, "fits", lambda line, tool, name: compared.append(name) or True)
    policy = Policy([Rule("deny", sessions="other-*"), Rule("allow")], default="deny")
    for number in range(5):
        check(policy, GET, session=f"s{number}")
    assert compared == ["weather::get"] * 2


@pytest.mark.parametrize("name", ["default", "rules", "budgets", "trivial", "counts_calls", "new"])
def test_a_policy_cannot_be_changed_so_that_no_change_is_without_effect(name):
    with pytest.raises(AttributeError):
        setattr(Policy(), name, "deny")


def test_what_is_remembered_about_tools_is_bounded(monkeypatch):
    monkeypatch.setattr(policy_module, "_REMEMBERED", 10)
    policy = Policy([Rule("deny", "*::t7")])
    for _ in range(3):
        assert [n for n in range(25) if not allowed(policy, Tool(f"t{n}", "ns"))] == [7]
        assert len(policy._plans) <= 10


@pytest.mark.parametrize("name", ["get_weather", "weather"])
def test_a_glob_that_can_match_no_qualified_name_is_refused(name):
    with pytest.raises(ConfigError, match=rf"'\*::{name}'"):
        Rule("deny", name)
    with pytest.raises(ConfigError, match="matches no tool"):
        Budget(1, name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rule("forbid"),
        lambda: Rule("deny", []),
        lambda: Rule("deny", "*", effects=["writes"]),
        lambda: Rule("deny", "*", tags=[1]),
        lambda: Budget(-1),
        lambda: Budget(True),
        lambda: Budget(1, per="day"),
        lambda: Policy(default="maybe"),
    ],
)
def test_a_mistake_in_code_is_told_when_the_policy_is_made(make):
    with pytest.raises(ConfigError):
        make()


NAMESPACES = st.sampled_from(["a", "b", "ab"])
NAMES = st.sampled_from(["x", "xy", "Y"])
TAGS = st.lists(st.sampled_from(["t", "u", "v"]), max_size=2, unique=True)
TOOLS = st.builds(
    lambda ns, n, e, t: Tool(n, ns, effects=e, tags=tuple(t)), NAMESPACES, NAMES, st.sampled_from(Effects), TAGS
)
GLOBS = st.sampled_from(["*", "a::*", "*::x", "a*y", "b::xy", "?::?", "[ab]::*", "*Y"])
RULES = st.builds(
    Rule,
    st.sampled_from(["allow", "deny"]),
    st.lists(GLOBS, min_size=1, max_size=2),
    effects=st.none() | st.lists(st.sampled_from(Effects), min_size=1, max_size=2),
    tags=st.none() | st.lists(st.sampled_from(["t", "u"]), min_size=1, max_size=2),
    sessions=st.none() | st.sampled_from(["*", "p-*", "q"]),
)


def naive(rules, default, tool, session):
    for rule in rules:
        if not any(fnmatch.fnmatchcase(tool.qualified_name, glob) for glob in rule.tools):
            continue
        if rule.effects is not None and tool.effects not in rule.effects:
            continue
        if rule.tags is not None and not set(rule.tags) & set(tool.tags):
            continue
        if rule.sessions is not None and not any(fnmatch.fnmatchcase(session, glob) for glob in rule.sessions):
            continue
        return rule.action
    return default


@given(
    st.lists(RULES, max_size=5),
    st.sampled_from(["allow", "deny"]),
    st.lists(st.tuples(TOOLS, st.sampled_from(["p-1", "q", "r"])), min_size=1, max_size=8),
)
def test_the_first_matching_rule_decides_as_in_the_plain_reading(rules, default, calls):
    policy = Policy(rules, default)
    for tool, session in calls * 2:
        assert allowed(policy, tool, session) == (naive(rules, default, tool, session) == "allow")


@given(
    st.lists(RULES, max_size=5),
    st.sampled_from(["allow", "deny"]),
    TOOLS,
    st.sampled_from(["p-1", "q", "", "r"]),
    st.sampled_from([(), ("k1", "somebody")]),
)
def test_nobody_gains_by_the_name_they_choose_for_a_session(rules, default, tool, chosen, keys):
    policy = Policy(rules, default)
    assert not allowed(policy, tool, chosen, keys=keys) or allowed(policy, tool, "no rule's", keys=keys)


def test_a_rule_for_keys_holds_for_their_names_and_ids_and_vouches_for_their_sessions():
    policy = Policy([Rule("allow", keys=["ops*", "id7"], sessions="trusted-*")], default="deny")
    assert allowed(policy, session="trusted-1", keys=("id1", "ops-2"))
    assert allowed(policy, session="trusted-1", keys=("id7", "other"))
    assert not allowed(policy, session="mine", keys=("id1", "ops-2"))
    assert not allowed(policy, session="trusted-1", keys=("id2", "guest"))
    assert not allowed(policy, session="trusted-1", keys=())
    assert not allowed(policy, session="trusted-1")


def test_a_denial_by_session_still_holds_for_those_who_choose_that_name():
    policy = Policy([Rule("deny", sessions="guest-*")])
    assert not allowed(policy, session="guest-1", keys=("id1", "gateway"))
    assert allowed(policy, session="other", keys=("id1", "gateway"))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (Rule("allow", sessions="a-*"), "allows them nothing"),
        (Rule("deny", sessions=["a-*", "b"]), "avoid it by another id"),
        (Rule("allow", sessions="*"), None),
        (Rule("allow", sessions="a-*", keys="ops"), None),
        (Rule("allow", keys="ops"), None),
    ],
)
def test_a_condition_that_callers_can_choose_is_told(rule, says):
    assert (says is None and rule.chosen_by_callers is None) or says in rule.chosen_by_callers


def test_counts_that_are_shared_are_spent_by_as_many_at_once_as_there_are_calls_left():
    policy, tries = Policy(budgets=[Budget(10, "weather::*"), Budget(7, per="tool")]), []
    counts = policy.counts_of("key")
    gate = threading.Barrier(8)

    def call():
        gate.wait()
        tries.extend(allowed(policy, counts=counts, shared=counts) for _ in range(5))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tries.count(True), counts) == (7, {"weather::get": 7})
    assert policy.counts_of("key") is counts and policy.counts_of("other") == {}


def test_a_session_budget_adds_up_all_matching_tools_of_the_session():
    policy = Policy(budgets=[Budget(3, "weather::*")])
    assert policy.counts_calls
    assert allowed(policy, counts={"weather::get": 1, "weather::set": 1, "pay::send": 9})
    info = denial(policy, counts={"weather::get": 1, "weather::set": 2})
    assert info.details["budget"] == {"number": 0, "max_calls": 3, "tools": ["weather::*"], "per": "session"}
    assert "max_calls" in info.hint
    assert allowed(policy, PAY, counts={"weather::get": 3})


def test_a_tool_budget_counts_each_tool_for_itself():
    policy = Policy(budgets=[Budget(2, per="tool")])
    assert allowed(policy, counts={"weather::get": 1, "pay::send": 2})
    assert not allowed(policy, PAY, counts={"weather::get": 1, "pay::send": 2})


def test_a_budget_of_zero_allows_nothing():
    for per in ("session", "tool", "yard"):
        assert not allowed(Policy(budgets=[Budget(0, per=per)]))


def test_a_yard_budget_counts_over_all_sessions_and_only_calls_that_were_let_through():
    policy = Policy(
        [Rule("deny", "weather::*", sessions="bad-*")], budgets=[Budget(2, per="yard"), Budget(1, "pay::*", per="yard")]
    )
    assert not policy.counts_calls
    for _ in range(5):
        assert not allowed(policy, GET, "bad-1")
    assert allowed(policy, PAY, "s1")
    assert not allowed(policy, PAY, "s2")
    assert allowed(policy, GET, "s3"), "the refused payment must not have used up the general budget"
    assert not allowed(policy, GET, "s4")


def test_a_yard_budget_is_exact_under_many_threads():
    policy = Policy(budgets=[Budget(50, per="yard")])
    barrier = threading.Barrier(8)
    passed = []

    def work():
        barrier.wait()
        passed.extend(1 for _ in range(20) if allowed(policy))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 50


@given(
    st.lists(st.builds(Budget, st.integers(0, 4), GLOBS, st.sampled_from(["session", "tool", "yard"])), max_size=3),
    st.lists(st.tuples(st.sampled_from(["s1", "s2"]), TOOLS), max_size=20),
)
def test_budgets_agree_with_counting_by_hand(budgets, calls):
    policy = Policy(budgets=budgets)
    ran = []
    for session, tool in calls:
        counts = {}
        for other_session, other in ran:
            if other_session == session:
                counts[other] = counts.get(other, 0) + 1
        name = tool.qualified_name
        fits = True
        for budget in budgets:
            match = [(s, n) for s, n in ran if fnmatch.fnmatchcase(n, budget.tools[0])]
            if budget.per != "yard":
                match = [(s, n) for s, n in match if s == session]
            if budget.per == "tool":
                match = [(s, n) for s, n in match if n == name]
            fits &= not fnmatch.fnmatchcase(name, budget.tools[0]) or len(match) < budget.max_calls
        assert allowed(policy, tool, session, counts) == fits
        if fits:
            ran.append((session, name))


def test_a_rule_that_asks_is_handed_to_whoever_asks_and_nothing_is_counted_yet():
    policy = Policy([Rule("ask", "pay::*", expires=60)], budgets=[Budget(1, per="yard")])
    lines = [policy.check(PAY, session_id="s1", counts={}) for _ in range(3)]
    assert {(line.number, line.rule.expires) for line in lines} == {(0, 60)}
    policy.spend(PAY, None)
    with pytest.raises(Denied, match="no calls left"):
        policy.check(PAY, session_id="s1", counts={})


@pytest.mark.parametrize("rule", [{"allow": "*", "self": True}, {"deny": "*", "expires": 5, "approvers": "ops"}])
def test_only_a_rule_that_asks_says_who_decides_and_until_when(rule):
    with pytest.raises(ConfigError, match="only a rule that asks has (self|expires and approvers)"):
        Policy.from_config({"rules": [rule]})


def test_a_rule_that_asks_reads_all_that_it_may_say():
    block = {"ask": "pay::*", "expires": 60, "approvers": "ops-*", "self": True, "preview": False}
    [rule] = Policy.from_config({"rules": [block]}).rules
    assert rule == Rule("ask", "pay::*", expires=60, approvers=("ops-*",), self_approval=True, preview=False)


def test_an_approver_sees_the_call_and_decides():
    asked = []
    policy = Policy([Rule("ask", "pay::*")], approver=lambda ask: asked.append(ask) or ask.arguments["sum"] < 10)
    check(policy, PAY, arguments={"sum": 5}, mode="simulate")
    assert asked == [Ask(PAY, "s1", {"sum": 5}, "simulate")]
    assert "not approved" in denial(policy, PAY, arguments={"sum": 50}).message
    check(policy, GET)
    assert len(asked) == 2


def test_asking_shows_no_argument_in_its_repr():
    assert "hunter22" not in repr(Ask(PAY, "s1", {"pin": "hunter22"}, "execute"))


def test_an_approver_that_fails_says_no_and_its_text_is_kept_out_of_the_answer():
    def approver(ask):
        raise RuntimeError(f"cannot show {ask.arguments}")

    with pytest.raises(Denied, match="RuntimeError") as caught:
        check(Policy(default="ask", approver=approver), PAY, arguments={"pin": "hunter22"})
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "hunter22" not in str(caught.value.info)


@pytest.mark.parametrize("answer", [None, 1, "yes", object()])
def test_only_true_is_a_yes_and_an_answer_that_is_neither_yes_nor_no_is_named(answer):
    refusal = denial(Policy([Rule("ask")], approver=lambda ask: answer))
    assert f"the approver returned {type(answer).__name__}" in refusal.message


def test_nobody_is_asked_about_a_call_that_a_budget_refuses_and_a_no_spends_nothing():
    asked = []
    answers = iter([False, True])
    policy = Policy(
        [Rule("ask")], budgets=[Budget(1, per="yard")], approver=lambda ask: asked.append(1) or next(answers)
    )
    assert not allowed(policy)
    assert allowed(policy)
    assert not allowed(policy)
    assert len(asked) == 2


def test_a_budget_that_runs_out_while_somebody_is_asked_refuses_the_call_and_counts_it_nowhere():
    def approver(ask):
        assert allowed(policy, GET), "another call takes the last one meanwhile"
        return True

    policy = Policy(
        [Rule("ask", "pay::*")],
        budgets=[Budget(2, ["pay::*", "*::put"], per="yard"), Budget(1, ["pay::*", "weather::get"], per="yard")],
        approver=approver,
    )
    assert denial(policy, PAY).details["budget"]["number"] == 1
    put = Tool("put", "weather")
    assert [allowed(policy, put) for _ in range(3)] == [True, True, False]


EXAMPLE = {
    "default": "deny",
    "rules": [
        {"allow": "weather::*"},
        {"deny": "*", "effects": ["write"]},
        {"ask": "pay::*", "tags": ["money"], "sessions": "prod-*"},
    ],
    "budgets": [{"max_calls": 100}, {"max_calls": 5, "tools": "pay::*", "per": "tool"}],
}


def test_the_block_of_the_documentation_is_read():
    policy = Policy.from_config(EXAMPLE, "yard.yaml: policy")
    assert policy.default == "deny"
    assert policy.rules == (
        Rule("allow", "weather::*"),
        Rule("deny", "*", effects=[Effects.WRITE]),
        Rule("ask", "pay::*", tags=["money"], sessions="prod-*"),
    )
    assert policy.budgets == (Budget(100), Budget(5, "pay::*", "tool"))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"defualt": "deny"}, "yard.yaml: policy: unknown key 'defualt'; did you mean 'default'?"),
        ({"rules": {}}, "yard.yaml: policy.rules: must be a list, not mapping"),
        ({"rules": [{"allow": "*"}, {"dney": "*"}]}, r"yard.yaml: policy.rules\[1\]: unknown key 'dney'; .*'deny'"),
        ({"rules": [{"allow": "*", "deny": "*"}]}, r"rules\[0\]: .*exactly one of allow, deny, ask.*allow and deny"),
        ({"rules": [{"tags": ["a"]}]}, "it has none"),
        ({"rules": [{"deny": "*", "effects": ["Write"]}]}, r"rules\[0\].effects\[0\]: no such choice.*'write'"),
        ({"rules": [{"deny": 3}]}, r"rules\[0\].deny: must be text or a list of text, not integer"),
        ({"rules": [{"deny": ["*", ""]}]}, r"rules\[0\].deny\[1\]: must be text, not empty"),
        ({"rules": [{"deny": "pay"}]}, r"rules\[0\].deny: 'pay' matches no tool"),
        ({"rules": [{"deny": "*", "tags": []}]}, r"rules\[0\].tags: .*not empty"),
        ({"budgets": [{"max_calls": True}]}, r"budgets\[0\].max_calls: must be a whole number, not boolean"),
        ({"budgets": [{"max_calls": -1}]}, r"budgets\[0\].max_calls: must be 0 or more"),
        ({"budgets": [{"per": "tool"}]}, r"budgets\[0\]: needs 'max_calls'"),
        ({"budgets": [{"max_calls": 1, "per": "sesion"}]}, "did you mean 'session'?"),
        ([], "yard.yaml: policy: must be a mapping, not list"),
        ({"default": None}, "policy.default: must be one of allow, deny, ask; not null"),
    ],
)
def test_a_mistake_in_the_block_is_told_with_its_place_and_the_remedy(block, said):
    with pytest.raises(ConfigError, match=said):
        Policy.from_config(block, "yard.yaml: policy")


TEXT = st.sampled_from(["*", "a::*", "a", "", "read", "write", "session", "allow", "[x", "?"])
LEAF = TEXT | st.sampled_from([None, True, 0, 3, -1, 2.0, 2.5])
THING = LEAF | st.lists(TEXT | st.just(1), max_size=3)


def block_of(required, optional, odd):
    """Mostly right mappings, with a wrong key or value now and then."""
    right = st.fixed_dictionaries(required, optional=optional)
    wrong = st.fixed_dictionaries({}, optional={**dict.fromkeys([*required, *optional], THING), odd: THING})
    return right | wrong | THING


GOOD_TEXTS = st.sampled_from(["*", "a::*", ["*::x", "b::*"]])
A_RULE = st.one_of(
    *(
        block_of(
            {action: GOOD_TEXTS},
            {"effects": st.sampled_from(["read", ["write", "read"]]), "tags": GOOD_TEXTS, "sessions": GOOD_TEXTS},
            "rule",
        )
        for action in ("allow", "deny", "ask")
    )
)
A_BUDGET = block_of(
    {"max_calls": st.sampled_from([0, 1, 2.0])},
    {"tools": GOOD_TEXTS, "per": st.sampled_from(["tool", "yard", "session"])},
    "max_call",
)
BLOCKS = block_of(
    {},
    {
        "default": st.sampled_from(["allow", "deny", "ask"]),
        "rules": st.lists(A_RULE, max_size=2),
        "budgets": st.lists(A_BUDGET, max_size=2),
    },
    "rule",
)


@given(BLOCKS)
def test_the_schema_accepts_what_the_reader_accepts_and_nothing_else(block):
    try:
        Policy.from_config(block, "policy")
    except ConfigError:
        read = False
    else:
        read = True
    assert jsonschema_rs.is_valid(POLICY_SCHEMA, block) == read


def test_the_schema_is_a_valid_one_and_describes_every_key():
    jsonschema_rs.meta.validate(POLICY_SCHEMA)
    rule = POLICY_SCHEMA["properties"]["rules"]["items"]["properties"]
    budget = POLICY_SCHEMA["properties"]["budgets"]["items"]["properties"]
    for properties in (POLICY_SCHEMA["properties"], rule, budget):
        assert all(len(part["description"]) > 10 for part in properties.values())
    jsonschema_rs.validate(POLICY_SCHEMA, EXAMPLE)


def test_an_approver_gets_a_copy_of_the_arguments_down_to_the_leaves():
    arguments = {"to": {"name": "ann"}, "items": [1]}

    def approver(ask):
        ask.arguments["to"]["name"] = "mallory"
        ask.arguments["items"].append(2)
        ask.arguments["extra"] = True
        return True

    check(Policy([Rule("ask")], approver=approver), arguments=arguments)
    assert arguments == {"to": {"name": "ann"}, "items": [1]}


names = st.sampled_from([f"{namespace}::{name}" for namespace in "abc" for name in "xyz"])


@given(
    st.lists(st.tuples(st.dictionaries(names, st.integers(1, 3)), names), max_size=6),
    st.lists(st.sampled_from(["*", "a::*", "*::x", "b::y", "[bc]::*"]), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_a_session_budget_counts_exactly_the_matching_calls(checks, globs, most):
    policy = Policy(budgets=[Budget(most, tools=globs)])
    for counts, called in checks:
        matches = [name for name in counts if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
        drawn = any(fnmatch.fnmatchcase(called, glob) for glob in globs)
        namespace, _, name = called.partition("::")
        expected = not drawn or sum(counts[name] for name in matches) < most
        assert allowed(policy, Tool(name, namespace), counts=counts) is expected


@pytest.mark.parametrize("globs", ["*", "a::*"])
def test_a_budget_matches_no_name_twice(globs):
    ledger = policy_module.Ledger([Budget(10_000, tools=globs), Budget(500, tools="a::x*")])
    counts = {f"a::t{n}": 10 for n in range(200)}
    ledger.check("a::x", counts)
    ledger._matchers = [None, None]  # not to be called any more
    for _ in range(3):
        ledger.check("a::x", counts)
        counts["a::t1"] += 1


@pytest.mark.parametrize("rules", [[{"deny": "*"}], ["deny *"]])
def test_what_is_no_rule_is_refused_with_words(rules):
    with pytest.raises(ConfigError, match="expected a list of Rule, got (dict|str)"):
        Policy(rules)
