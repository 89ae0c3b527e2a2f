"""`python -m benchmarks.eval_outputs [--errors]`: how well rules guess what tools return.

Every tool of the corpus that declares its output schema is read by the rules without it, and the guess is compared with
what is declared. A field is right if one of the same words (`petId`, `pet_ids`) stands anywhere in the declared schema;
it is near if only its last word does. A type is right if the field of the same name has it. `found` is the share of
declared fields, as far as two levels down, that were guessed. `tools` are those with at least one right field.
Rules were cut by what they give in the half `tune`; of the half `check` only the figures are looked at. A hash of the
name says which half a tool is in. `--errors` prints some guesses of the first half that were all wrong.

The corpus is the one named by `TOOLYARD_CORPUS`, or the sample in `tests/data`. Exits 1 if fewer than 18% of the fields
guessed for a half of the catalogs are right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchmarks.material import corpus_folder
from toolyard import FileToolLoader, RESTToolLoader, Tool, ToolRegistry
from toolyard.insight.outputs.rules import output_schema
from toolyard.model.errors import ToolyardError
from toolyard.words.identifiers import singular, split_identifier

LEAST_RIGHT = 18.0
_LEVELS = 6
_MOST_FIELDS = 2000
_SHOWN = 40

Words = tuple[str, ...]
Field = tuple[Words, int, frozenset[str]]
"""Words of its name, how deep it stands, and its types."""


@dataclass
class Score:
    """What came of the tools of one kind and half."""

    tools: int = 0
    helped: int = 0
    guessed: int = 0
    right: int = 0
    near: int = 0
    typed: int = 0
    declared: int = 0
    found: int = 0

    def row(self, name: str) -> str:
        """One line of the table."""
        cells = (
            (self.right, self.guessed),
            (self.near, self.guessed),
            (self.typed, self.right),
            (self.found, self.declared),
            (self.helped, self.tools),
        )
        shares = (f"{100 * part / whole:.1f}%" if whole else "" for part, whole in cells)
        return f"| {name} | {self.tools} | {self.guessed} | " + " | ".join(shares) + " |"


def main(arguments: list[str]) -> int:
    """Print the table; 1 if too few fields are right."""
    scores: dict[str, Score] = {}
    wrong: list[str] = []
    for kind, tool in _list_declared():
        half = "tune" if blake2b(tool.name.encode()).digest()[0] & 1 else "check"
        declared = list(_list_fields(tool.output_parameters))
        guess = output_schema(tool.replace(output_parameters={}))
        if not _add_guess(scores.setdefault(f"{kind}, {half}", Score()), declared, guess) and half == "tune":
            wrong.append(f"{tool.name}: {tool.description[:90]!r}: {list(guess['properties'])}")
    if "--errors" in arguments:
        print("\n".join(wrong[:: max(1, len(wrong) // _SHOWN)]))
    print("| set | tools | fields | right | near | type right | found | tools helped |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, score in sorted(scores.items()):
        print(score.row(name))
    catalogs = [score for name, score in scores.items() if name.startswith("catalogs")]
    return int(any(100 * score.right < LEAST_RIGHT * score.guessed for score in catalogs))


def _list_declared() -> Iterator[tuple[str, Tool]]:
    """The tools that say what they return, each name once in each kind of source."""
    for kind, pattern in (("catalogs", "*.jsonl"), ("openapi", "*.*")):
        seen: set[str] = set()
        for path in sorted(corpus_folder(kind).glob(pattern)):
            for tool in _load_tools(path, openapi=kind == "openapi"):
                if tool.output_parameters and tool.name not in seen:
                    seen.add(tool.name)
                    yield kind, tool


def _load_tools(path: Path, *, openapi: bool) -> tuple[Tool, ...]:
    options: dict[str, Any] = {"namespace": "n", "on_error": "skip", "on_duplicate": "skip"}
    loader = RESTToolLoader(str(path), **options) if openapi else FileToolLoader(str(path), **options)
    try:
        return tuple(ToolRegistry.from_loaders([loader]).snapshot.tools)
    except ToolyardError as error:
        print(f"  {path.name}: {error}", file=sys.stderr)
        return ()


def _add_guess(score: Score, declared: list[Field], guess: Mapping[str, Any]) -> bool:
    """Count one guess; whether any field of it was right."""
    if not declared:
        return True
    types: dict[Words, set[str]] = {}
    for words, _, kinds in declared:
        types.setdefault(words, set()).update(kinds)
    heads = {words[-1] for words in types}
    guessed = {words: kinds for words, _, kinds in _list_fields(guess)}
    right = guessed.keys() & types.keys()
    upper = {words for words, level, _ in declared if level <= 2}
    score.tools += 1
    score.helped += bool(right)
    score.guessed += len(guessed)
    score.right += len(right)
    score.near += sum(words[-1] in heads for words in guessed)
    score.typed += sum(bool(_widen(guessed[words]) & _widen(types[words])) for words in right)
    score.declared += len(upper)
    score.found += len(right & upper)
    return bool(right)


def _widen(kinds: set[str] | frozenset[str]) -> set[str]:
    """Whole numbers are numbers."""
    return {"number" if kind == "integer" else kind for kind in kinds}


def _list_fields(root: Mapping[str, Any]) -> Iterator[Field]:
    """Every property in a schema, level by level, wherever references, unions and lists lead."""
    level: list[Any] = [root]
    seen: set[int] = set()
    given = 0
    for depth in range(1, _LEVELS + 1):
        below: list[Any] = []
        while level:
            schema = level.pop(0)
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            level += [_resolve(root, schema.get("$ref")), schema.get("items")]
            for union in ("allOf", "anyOf", "oneOf"):
                level += schema.get(union) or ()
            for name, part in (schema.get("properties") or {}).items():
                words = tuple(singular(word) for word in split_identifier(name))
                if words and given < _MOST_FIELDS:
                    given += 1
                    yield words, depth, _list_types(root, part)
                below.append(part)
        level = below


def _list_types(root: Mapping[str, Any], schema: Any, depth: int = 4) -> frozenset[str]:
    if not isinstance(schema, Mapping) or not depth:
        return frozenset()
    kinds = schema.get("type") or ()
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    found |= {"object"} if "properties" in schema else set()
    for part in (_resolve(root, schema.get("$ref")), *(schema.get("allOf") or ()), *(schema.get("anyOf") or ())):
        found |= _list_types(root, part, depth - 1)
    return frozenset(found)


def _resolve(root: Mapping[str, Any], reference: Any) -> Any:
    here: Any = root
    for step in reference.removeprefix("#").split("/")[1:] if isinstance(reference, str) else ():
        here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, Mapping) else None
    return None if reference is None else here


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
