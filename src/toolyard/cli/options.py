"""What verbs have in common on the command line, said once: each takes one of these two, and its own beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class VerbOptions:
    """What every verb takes."""

    json: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, errors included.")] = False
    quiet: Annotated[
        bool, Parameter(name=["--quiet", "-q"], negative="", help="Nothing but errors on standard error.")
    ] = False
    verbose: Annotated[
        bool,
        Parameter(name=["--verbose", "-v"], negative="", help="Say on standard error what is done, as it is done."),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class YardOptions(VerbOptions):
    """What every verb takes that works on tools; `name_file` lets the file stand without its -c."""

    config: Annotated[
        Path | None,
        Parameter(
            name=["--config", "-c"],
            help="Config, catalog or Python file; it may also stand as the first word, without -c. Default: "
            "$TOOLYARD_CONFIG, ./toolyard.yaml, or the domains of $TOOL_REGISTRY_DOMAINS, which are the core tools "
            "if it is not set.",
        ),
    ] = None


OUTPUT, YARD = VerbOptions(), YardOptions()

SkipOption = Annotated[
    bool,
    Parameter(
        name="--skip-bad", negative="", help="Leave out bad entries and duplicates instead of refusing the file."
    ),
]
OwnerOption = Annotated[str | None, Parameter(name="--owner", help="Whose session it is.")]


def read_word(text: str) -> Any:
    """The value of a KEY=VALUE: JSON where it is JSON, and else the text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
