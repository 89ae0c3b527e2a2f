"""Where a verb's file stands: `VERB FILE ...` and `VERB FILE::NAME ...` are read as `VERB --config FILE [NAME] ...`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cyclopts import App

from toolyard.constants import TOOL_NAMESPACE_SEP

_OPTION, _SHORT = "--config", "-c"
_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".py"})


def name_file(app: App, arguments: Sequence[str]) -> list[str]:
    """The arguments with the file behind its option, if the verb takes one and it stands as a word.

    The file is the first word of a verb, after the files that are the verb's own. Where the verb has words of
    another kind, it must look like a file: by its suffix, and by being there, or by what follows it.
    """
    verb, apps, rest = app.parse_commands(list(arguments))
    if not verb or verb[-1].startswith("-") or apps[-1].default_command is None:
        return list(arguments)
    found = apps[-1].assemble_argument_collection()
    takes = {name: argument.token_count()[0] for argument in found for name in argument.names if name.startswith("-")}
    if _OPTION not in takes or any(word.partition("=")[0] in (_OPTION, _SHORT) for word in rest):
        return list(arguments)
    own = [argument.hint for argument in found if argument.index is not None]
    files = own.count(Path)
    places = list(_find_words(rest, takes))[files:]
    if not places:
        return list(arguments)
    path, mark, name = rest[places[0]], "", ""
    if len(own) > files:
        path, mark, name = path.partition(TOOL_NAMESPACE_SEP)
        if Path(path).suffix.lower() not in _SUFFIXES or not (mark or len(places) > 1 or Path(path).is_file()):
            return list(arguments)
    rest[places[0] : places[0] + 1] = [name] if mark else []
    return [*verb, _OPTION, path, *rest]


def _find_words(rest: Sequence[str], takes: Mapping[str, int]) -> Iterator[int]:
    """The places of what is neither an option nor the value of one."""
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
