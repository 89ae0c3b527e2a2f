"""An output schema that was inferred binds no tool that really runs."""

from toolyard import Tool, function_tool
from toolyard.dialects.mcp import McpDialect, wraps
from toolyard.model.tool import is_guess, promises_output

SCHEMA = {"type": "object", "properties": {"area": {"type": "number"}}}
GUESSED = {**SCHEMA, "x-inferred": "rules"}


def area(side: float):
    """The area of a square."""
    return side * side


REAL = function_tool(area, namespace="n").replace(output_parameters={})
SIMULATED = Tool("area", "n")


def test_a_guess_is_an_inferred_schema_of_a_tool_that_something_is_behind():
    assert is_guess(REAL.replace(output_parameters=GUESSED))
    assert not is_guess(REAL.replace(output_parameters=SCHEMA))
    assert not is_guess(SIMULATED.replace(output_parameters=GUESSED))
    assert not is_guess(REAL)


def test_only_output_schemas_that_are_not_inferred_are_promises():
    assert promises_output(REAL.replace(output_parameters=SCHEMA))
    assert promises_output(SIMULATED.replace(output_parameters=GUESSED))
    assert not promises_output(REAL.replace(output_parameters=GUESSED))
    assert not promises_output(REAL)


def test_clients_that_would_check_answers_are_not_shown_a_guess():
    def shown(tool):
        (listed,) = McpDialect().format_tools([tool])
        return listed.get("outputSchema")

    assert shown(REAL.replace(output_parameters=GUESSED)) is None
    assert shown(REAL.replace(output_parameters=SCHEMA)) == SCHEMA
    assert shown(SIMULATED.replace(output_parameters=GUESSED))["properties"] == SCHEMA["properties"]
    assert not wraps(REAL.replace(output_parameters={"type": "array", "x-inferred": "examples"}))
