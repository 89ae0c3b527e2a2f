import inspect

import pytest

from toolyard.model import errors
from toolyard.model.errors import CallError, ToolyardError

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, ToolyardError)]


def test_the_tree_at_the_top_of_the_file_names_every_class_and_its_code():
    for cls in CLASSES:
        assert cls.__name__ in errors.__doc__
        if issubclass(cls, CallError) and cls is not CallError:
            assert cls.code in errors.__doc__


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
