"""Options that verbs share, and the config file among their arguments.

`VERB FILE ...` and `VERB FILE::NAME ...` are read as `VERB --config FILE [NAME] ...` (`name_file`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, CycloptsError, Parameter

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import ConfigError
from toolyard.parsing.files import file_of


@Parameter(name="*")
@dataclass(frozen=True)
class VerbOptions:
    """Options of every verb."""

    json: Annotated[bool, Parameter(name="--json", help="Print JSON, also for errors.")] = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], help="Print only errors on standard error.")] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], help="Print what is done on standard error.")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class YardOptions(VerbOptions):
    """Options of every verb that works on tools; `name_file` allows the file without -c."""

    config: Annotated[
        Path | None,
        Parameter(
            name=["--config", "-c"],
            help="Config, catalog or Python file; may also be the first argument, without -c. Default: "
            "$TOOLYARD_CONFIG, ./toolyard.yaml, or the domains in $TOOL_REGISTRY_DOMAINS (core if "
            "not set).",
        ),
    ] = None


OUTPUT, YARD = VerbOptions(), YardOptions()
DEFAULT_CONFIG = Path("toolyard.yaml")

SkipOption = Annotated[
    bool, Parameter(name="--skip-bad", help="Skip invalid entries and duplicates instead of rejecting the file.")
]
ToolName = Annotated[str, Parameter(help="Qualified name, or a bare name that only one namespace has.")]
NamespacesOption = Annotated[
    tuple[str, ...], Parameter(name=["--namespace", "-n"], help="Only tools of this namespace. May be repeated.")
]
FormatOption = Annotated[
    str | None,
    Parameter(
        name="--format",
        help="Use a provider's format: openai, openai-responses, anthropic, gemini or mcp. What the format cannot "
        "express is listed on standard error.",
    ),
]
OwnerOption = Annotated[str | None, Parameter(name="--owner", help="Owner of the session.")]


def read_word(text: str) -> Any:
    """The value of a KEY=VALUE word: parsed if it is JSON, else the text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    except RecursionError:
        raise ConfigError(f"{text[:20]}...: the value is nested too deeply") from None


_OPTION, _SHORT = "--config", "-c"
_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".py"})


def name_file(app: App, arguments: Sequence[str]) -> list[str]:
    """The arguments with -c inserted before the file, if the verb takes one and it was given as a word.

    The file is the first word after those that are the verb's own files. If the verb takes other words as well, it must
    look like a file: by its suffix, and by existing or by what follows it.
    """
    verb, apps, rest = app.parse_commands(list(arguments))
    if not verb or verb[-1].startswith("-") or apps[-1].default_command is None:
        return list(arguments)
    named = any(word.partition("=")[0] in (_OPTION, _SHORT) for word in rest)
    if named or all(word.startswith("-") for word in rest):
        return list(arguments)
    takes, own = _read_arguments(apps[-1].default_command)
    if _OPTION not in takes:
        return list(arguments)
    files = list(own.values()).count(Path)
    places = list(_find_words(rest, takes))[files:]
    if not places:
        return list(arguments)
    path, mark, name = rest[places[0]], "", ""
    if len(own) > files:
        path, mark, name = path.partition(TOOL_NAMESPACE_SEP)
        file, _, meant = path.rpartition(":")
        if meant and not mark and Path(file).suffix.lower() in _SUFFIXES and Path(file).is_file():
            of_part = f" (of the part {meant}: {path}{TOOL_NAMESPACE_SEP}NAME)" if file.endswith(".py") else ""
            written = f"{file}{TOOL_NAMESPACE_SEP}{meant}{of_part}"
            raise ConfigError(f"{path}: a tool of a file is written with two colons, {written}")
        is_likely = mark or len(places) > 1 or Path(path).is_file()
        if not is_likely or file_of(Path(path)).suffix.lower() not in _SUFFIXES:
            return list(arguments)
    rest[places[0] : places[0] + 1] = [name] if mark else []
    return [*verb, _OPTION, path, *rest]


@cache
def _read_arguments(command: Callable[..., Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The options of a command with how many words each takes, and its own words with their types."""
    verb = App()
    verb.default(command)
    found = verb.assemble_argument_collection()
    takes = {name: argument.token_count()[0] for argument in found for name in argument.names if name.startswith("-")}
    return takes, {argument.name: argument.hint for argument in found if argument.index is not None}


def describe_unused(app: App, error: CycloptsError) -> str:
    """A message about words that a verb does not take: where the file belongs, or that quotes are missing."""
    words, verb = error.unused_tokens or [], list(error.command_chain or ())
    own = _read_arguments(app.parse_commands(verb)[1][-1].default_command)[1]
    shown, given = " ".join(["toolyard", *verb]), error.root_input_tokens or []
    for word in words:
        if Path(word).suffix.lower() in _SUFFIXES and not {_OPTION, _SHORT} & set(given):
            return f"{word!r} is not in its place; the file comes first, `{shown} {word} ...`, or behind -c"
    taken = f"{' '.join(own)} alone; put words that belong together in quotes" if own else "no such word"
    return f"{', '.join(map(repr, words))}: `{shown}` takes {taken}"


def _find_words(rest: Sequence[str], takes: Mapping[str, int]) -> Iterator[int]:
    """The indices of words that are neither options nor their values."""
    values = 0
    for place, word in enumerate(rest):
        if word == "--":
            return
        if values:
            values -= 1
        elif word.startswith("-") and word != "-":
            values = 0 if "=" in word else takes.get(word, 0)
        else:
            yield place
