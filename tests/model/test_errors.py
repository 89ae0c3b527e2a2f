import inspect
import pickle
import re

import pytest

from toolyard.model import errors
from toolyard.model.errors import CallError, ToolyardError

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, ToolyardError)]


def test_the_tree_at_the_top_of_the_file_names_every_class_and_its_code():
    for cls in CLASSES:
        assert cls.__name__ in errors.__doc__
        if issubclass(cls, CallError) and cls is not CallError:
            assert cls.code in errors.__doc__


def test_the_tree_says_of_every_code_its_class_its_status_and_whether_to_try_again():
    rows = re.findall(r"[|`]- (\w+)\S* +([a-z]+\.[a-z_]+) +(\d{3})(  retryable)?$", errors.__doc__, flags=re.MULTILINE)
    assert {(name, code, int(status), bool(again)) for name, code, status, again in rows} == {
        (kind.__name__, kind.code, kind.http_status, kind.retryable)
        for kind in CLASSES
        if errors.error_class(kind.code) is kind
    }


def test_a_class_that_names_a_code_is_found_by_it_and_no_code_is_used_twice():
    naming = [kind for kind in CLASSES if "code" in vars(kind) and kind not in (ToolyardError, CallError)]
    assert [errors.error_class(kind.code) for kind in naming] == naming
    assert errors.http_status_of("nothing.known") == 500


def test_a_call_error_is_made_of_its_facts_whatever_their_code():
    info = errors.ErrorInfo("their.own", "no", retryable=True)
    error = CallError.from_info(info)
    assert type(error) is CallError
    assert error.info is info
    assert type(CallError.from_info(errors.ErrorInfo("session.busy", "no"))) is CallError


def test_builtin_bases_are_as_promised():
    for name, base in [
        ("ConfigError", ValueError),
        ("UnknownPluginError", KeyError),
        ("DuplicatePluginError", ValueError),
        ("DefinitionError", ValueError),
        ("SessionExistsError", ValueError),
        ("UnknownSessionError", KeyError),
        ("UnknownToolError", KeyError),
        ("SyncInAsyncError", RuntimeError),
    ]:
        assert issubclass(getattr(errors, name), base)


@pytest.mark.parametrize("cls", [c for c in CLASSES if issubclass(c, KeyError)])
def test_a_key_error_shows_its_text_unquoted(cls):
    assert str(cls("no tool is called x")) == "no tool is called x"


def test_call_errors_carry_facts_and_to_dict_leaves_out_what_is_not_set():
    error = errors.CallTimeout("late", details={"after": 3})
    assert error.info.to_dict() == {
        "code": "tool.timeout",
        "message": "late",
        "retryable": True,
        "effect": "unknown",
        "details": {"after": 3},
    }
    assert errors.ErrorInfo.from_dict(error.info.to_dict()) == error.info


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.SamplingError("why", 4, ["a"]), "why"),
        (errors.SamplingError("why", requested=4, tools=["a"]), "why"),
        (errors.SamplingError(message="why", requested=4, tools=("a",)), "why"),
        (errors.SamplingError(4, ["a"]), "found 1 of 4 tools"),
        (errors.SamplingError(4, tools=["a"]), "found 1 of 4 tools"),
        (errors.SamplingError(requested=4, tools=["a"]), "found 1 of 4 tools"),
    ],
)
def test_a_sampling_error_is_made_with_or_without_a_text_by_place_or_by_keyword(error, text):
    assert (str(error), error.requested, error.tools) == (text, 4, ["a"])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.requested, again.tools) == (text, 4, ["a"])


def test_a_sampling_error_may_have_a_message_only():
    error = errors.SamplingError("why")
    assert (str(error), error.requested, error.tools) == ("why", 0, [])
    assert errors.SamplingError(3).requested == 3
    with pytest.raises(TypeError, match="the number of tools"):
        errors.SamplingError("why", ["a"])


def sent(code, **more):
    return {"code": code, "message": "no", "retryable": False, "effect": "none", **more}


def test_an_error_of_another_toolyard_keeps_its_class_and_fields():
    error = CallError.from_wire(sent("tool.not_found", hint="near", retry_after=2.0, details={"candidates": []}))
    assert type(error) is errors.UnknownToolError
    assert error.info.to_dict() == sent("tool.not_found", hint="near", retry_after=2.0, details={"candidates": []})


@pytest.mark.parametrize("data", [None, [], {}, {"code": "tool.denied"}, sent("tool.denied", details=5), sent(5)])
def test_what_has_not_the_fields_of_an_error_is_none(data):
    assert CallError.from_wire(data) is None


@pytest.mark.parametrize("code", ["", "their.own", "x" * 5000, "a\r\nb", "session.not_found", "server.error"])
def test_a_code_that_is_none_of_a_call_is_not_believed(code):
    assert CallError.from_wire(sent(code)) is None


@pytest.mark.parametrize("approval", [{"id": "0123.4"}, {"id": "a\r\nb"}, {"id": 5}, {}, "x", None])
def test_a_call_that_is_held_elsewhere_is_denied_here(approval):
    error = CallError.from_wire(sent("tool.held", hint="have it approved", details={"approval": approval}))
    assert type(error) is errors.Denied
    assert (error.info.hint, error.info.approval_id) == ("have it approved", None)


def test_nobody_is_told_to_wait_for_less_than_no_time():
    assert CallError.from_wire(sent("tool.unavailable", retry_after=-5.0)).info.retry_after == 0


WRONG = [5, "abc", {"pointer": "/a"}, ["row 3"], [{"pointer": 5}], [{"pointer": "/a"}], None]


@pytest.mark.parametrize("found", WRONG)
def test_details_of_a_tools_own_under_the_name_of_violations_are_none_of_a_schema(found):
    assert errors.ErrorInfo("tool.invalid_args", "no", details={"violations": found}).violations == []


@pytest.mark.parametrize("approval", [{}, {"id": 5}, "x", None])
def test_a_held_call_whose_approval_has_no_id_waits_for_none(approval):
    assert errors.ErrorInfo("tool.held", "no", details={"approval": approval}).approval_id is None
