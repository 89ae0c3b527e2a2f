"""`toolyard call`: run one tool."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated, Any

from cyclopts import Parameter

from toolyard.cli.output import fail, print_json
from toolyard.cli.yard import ConfigOption, JsonOption, SkipOption, open_registry
from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError
from toolyard.registry import Bound
from toolyard.registry.invoke import call_python


def call(
    name: str,
    arguments: Annotated[str, Parameter(allow_leading_hyphen=True)] = "{}",
    /,
    *,
    config: ConfigOption = None,
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> int:
    """Call a tool and print its result; exits 1 if the call failed.

    Parameters
    ----------
    name
        Qualified name, or a bare name that only one namespace has.
    arguments
        A JSON object, or - to read it from standard input.
    """
    text = sys.stdin.read() if arguments == "-" else arguments
    request = ToolCall(name, text)
    with open_registry(config, skip_bad=skip_bad) as registry:
        try:
            bound = registry.bind(request)
            value = _answer(bound)
        except CallError as error:
            if json:
                print_json(ToolResult.failed(request, error.info).to_dict())
            else:
                fail(error)
            return 1
    if json:
        repairs = {"coercions": [item.to_dict() for item in bound.coercions]} if bound.coercions else {}
        print_json(ToolResult(None, bound.tool.qualified_name, value, metadata=repairs).to_dict())
    else:
        print_json(value)
    return 0


def _answer(bound: Bound) -> Any:
    # Standard output is for the answer alone, whatever the tool prints.
    with redirect_stdout(sys.stderr):
        value = call_python(bound.tool, bound.arguments)
    binding = bound.tool.binding
    return binding.finish(value) if isinstance(binding, PythonBinding) and binding.finish else value
