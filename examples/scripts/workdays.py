"""Two tools in one file, and a context that says who asks."""

from datetime import date, timedelta

DATE = {"type": "string", "format": "date", "description": "As in 2026-11-15."}
SATURDAY = 5


async def between(start, end):
    """Count the days from one date to another, and those of them on which people work."""
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    days = (last - first).days
    working = sum((first + timedelta(n)).weekday() < SATURDAY for n in range(max(days, 0)))
    return {"days": days, "working_days": working}


async def add(start, days, ctx):
    """The date so many working days later."""
    print(f"asked in session {ctx.session_id}")  # goes to the trace, not to the caller
    day = date.fromisoformat(start)
    while days > 0:
        day += timedelta(1)
        days -= day.weekday() < SATURDAY
    return day.isoformat()


TOOL_EFFECTS = "read"
TOOLS = [
    {
        "name": "workdays_between",
        "description": "Count the days, and the working days, from one date to another.",
        "parameters": {"type": "object", "properties": {"start": DATE, "end": DATE}, "required": ["start", "end"]},
        "handler": between,
    },
    {
        "name": "add_workdays",
        "description": "The date that is so many working days after another.",
        "parameters": {
            "type": "object",
            "properties": {"start": DATE, "days": {"type": "integer", "minimum": 0, "maximum": 10000}},
            "required": ["start", "days"],
        },
        "handler": add,
    },
]
