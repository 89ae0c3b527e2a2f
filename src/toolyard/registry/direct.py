"""The short way to a tool whose JSON arguments are its keywords: validate, call, nothing between.

`bind_exact` and `call_python` say what a dispatch does. This says it again for the commonest kind of tool,
because a benchmark holds it within 1.5x of validating and calling by hand (1.3x from JSON text).
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from toolyard.model.bindings import PythonBinding
from toolyard.model.errors import CallError
from toolyard.registry.arguments import RawArguments, read_arguments
from toolyard.registry.bind import refusal
from toolyard.registry.candidate import Candidate
from toolyard.registry.invoke import CALLERS_FAULTS, call_python, tool_failed, wait_for
from toolyard.schema.typed_json import typed_decoder


def direct_call(candidate: Candidate) -> Callable[[RawArguments], Any] | None:
    """What `dispatch` may call instead of the long way; None for a tool that needs more than this."""
    tool = candidate.tool
    binding = tool.binding
    if candidate.defaults or not isinstance(binding, PythonBinding) or not _is_plain(binding):
        return None
    validate, function, integers = candidate.compiled.validate, binding.callable, binding.integers
    read = typed_decoder(tool.parameters) or _undecided

    def call(arguments: RawArguments) -> Any:
        checked = read(arguments) if type(arguments) is str else None
        if checked is None:
            checked = arguments if type(arguments) is dict else read_arguments(arguments)
            try:
                validate(checked)
            except ValueError:
                raise refusal((candidate,), checked) from None
            for name in integers:
                if type(checked.get(name)) is float:
                    return call_python(tool, checked)
        try:
            value = function(**checked)
        except CALLERS_FAULTS as error:
            raise tool_failed(tool, error) from error
        except CallError:
            raise
        except (Exception, SystemExit) as error:
            raise tool_failed(tool, error) from error
        return wait_for(tool, value) if type(value) is CoroutineType else value

    return call


def _undecided(text: str) -> None:
    """Stands in for a schema that is no type: the validator decides."""


def _is_plain(binding: PythonBinding) -> bool:
    special = binding.is_async or binding.takes_ctx or binding.prepare is not None or binding.returns is not None
    return not special
