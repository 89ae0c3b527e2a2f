"""Plain Python functions as tools: types and docstrings are their definition."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from toolyard import Effects, tool


@tool(effects=Effects.READ, tags=["dates"])
def days_between(start: date, end: date) -> int:
    """Count the days from one date to another.

    Args:
        start: First day.
        end: Last day; before `start` gives a negative number.
    """
    return (end - start).days


@tool(effects=Effects.READ)
def split_bill(
    total: Annotated[float, Field(ge=0, description="What the bill says.")],
    people: Annotated[int, Field(ge=1)],
    rounding: Literal["none", "up"] = "none",
) -> list[float]:
    """Split a bill between people, to the cent.

    Parameters
    ----------
    people
        How many pay.
    rounding
        "up" lets everybody pay the same, rounded up.
    """
    cents = round(total * 100)
    share, rest = divmod(cents, people)
    if rounding == "up":
        return [(share + bool(rest)) / 100] * people
    return [(share + (index < rest)) / 100 for index in range(people)]
