"""Count the working days of some weeks."""

TOOL_NAME = "workdays"
TOOL_DESCRIPTION = "Count the working days of some weeks."
TOOL_PARAMETERS = {"type": "object", "properties": {"weeks": {"type": "integer"}}, "required": ["weeks"]}
TOOL_EFFECTS = "read"


async def run(weeks):
    """Five days a week."""
    return 5 * weeks
