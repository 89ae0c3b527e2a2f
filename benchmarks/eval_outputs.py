"""`python -m benchmarks.eval_outputs [--lm N] [--errors]`: how well rules guess what tools return.

Every tool of the corpus that declares its output schema is read by the rules without it, and the guess is compared with
what is declared. A field is right if one of the same words (`petId`, `pet_ids`) stands anywhere in the declared schema,
else it is invented; it is near if only its last word does. A type is right if the field of the same name has it.
`found` is the share of declared fields, as far as two levels down, that were guessed. `tools helped` have at least one
right field. Beside the rules: a guess of `object`, of an id and a name, and with `--lm N` what a model says of N tools
of each set: that of the JSON block `TOOLYARD_LM`, or the one that the extra `llama` runs (135 million parameters).

Rules were cut by what they give in the half `fitted`; of the half `kept` only the figures are looked at. A publisher of
documents is in one half, whole. The catalogs are made up by language models: one on which rules were written, one kept.
Of one document no more than 40 tools are taken. `--errors` prints some guesses of the first half that were all wrong.

The corpus is the one named by `TOOLYARD_CORPUS`, or the sample in `tests/data`. Exits 1 if fewer than 18% of the fields
guessed for a half of the documents are right, or fewer than 5% found.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.material import corpus_folder
from toolyard import FileToolLoader, RESTToolLoader, Tool, ToolRegistry
from toolyard.insight.outputs.enrichment import OutputParametersEnrichment
from toolyard.insight.outputs.rules import output_schema
from toolyard.model.errors import ToolyardError
from toolyard.words.identifiers import singular, split_identifier

LEAST_RIGHT, LEAST_FOUND = 0.18, 0.05
_LEVELS = 6
_MOST_FIELDS = 2000
_SHOWN = 40
_SMALL_MODEL = '{"type": "llama", "max_tokens": 300, "max_concurrent": 1, "timeout": 3600, "temperature": 0}'
_OF_DOCUMENT = 40
_OF_CATALOG = 1000

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
            (self.guessed - self.right, self.guessed),
            (self.near, self.guessed),
            (self.typed, self.right),
            (self.found, self.declared),
            (self.helped, self.tools),
        )
        shares = (f"{100 * part / whole:.1f}%" if whole else "" for part, whole in cells)
        return f"| {name} | {self.tools} | {self.guessed} | " + " | ".join(shares) + " |"


class Declared(NamedTuple):
    """A tool as its author wrote it, without what it says that it returns, and that."""

    tool: Tool
    fields: list[Field]


def main(arguments: list[str]) -> int:
    """Print the table; 1 if too few fields are right or found."""
    sets = _read_corpus()
    print("| set | guess | tools | fields | right | invented | near | type right | found | tools helped |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    good = True
    for name, tools in sorted(sets.items()):
        for guess, schemas in _GUESSES.items():
            score = _score_guesses(tools, [schemas(one.tool) for one in tools])
            print(score.row(f"{name} | {guess}"))
            if guess == "rules" and name.startswith("openapi"):
                good &= score.right >= LEAST_RIGHT * score.guessed and score.found >= LEAST_FOUND * score.declared
        if "--lm" in arguments:
            some = tools[:: max(1, len(tools) // int(arguments[arguments.index("--lm") + 1]))]
            print(_score_guesses(some, [output_schema(one.tool) for one in some]).row(f"{name} | rules, of these"))
            print(_score_guesses(some, _ask_model(some)).row(f"{name} | model"))
    if "--errors" in arguments:
        wrong = [one for name, tools in sets.items() if "fitted" in name for one in tools if not _is_helped(one)]
        for tool, _ in wrong[:: max(1, len(wrong) // _SHOWN)]:
            print(f"{tool.name}: {tool.description[:90]!r}: {list(output_schema(tool)['properties'])}")
    return int(not good)


def _score_guesses(tools: Sequence[Declared], guesses: Sequence[Mapping[str, Any]]) -> Score:
    score = Score()
    for one, guess in zip(tools, guesses, strict=True):
        _add_guess(score, one.fields, guess)
    return score


def _is_helped(one: Declared) -> bool:
    return bool(_score_guesses([one], [output_schema(one.tool)]).right)


def _guess_record(_: Tool) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in ("id", "name")}}


_GUESSES: dict[str, Callable[[Tool], Mapping[str, Any]]] = {
    "object": lambda _: {"type": "object"},
    "id and name": _guess_record,
    "rules": output_schema,
}


def _ask_model(tools: Sequence[Declared]) -> list[Mapping[str, Any]]:
    asked = OutputParametersEnrichment(json.loads(os.environ.get("TOOLYARD_LM") or _SMALL_MODEL), cache=False)
    with ToolRegistry([one.tool for one in tools], enrichments=[asked]) as registry:
        return [tool.output_parameters or {"type": "object"} for tool in registry.snapshot.tools]


def _read_corpus() -> dict[str, list[Declared]]:
    """The tools that say what they return, by kind and half."""
    found: dict[str, list[Declared]] = {}
    for kind, pattern in (("catalogs", "*.jsonl"), ("openapi", "*.*")):
        for path in sorted(corpus_folder(kind).glob(pattern)):
            tools = [tool for tool in _load_tools(path, openapi=kind == "openapi") if tool.output_parameters]
            most = _OF_DOCUMENT if kind == "openapi" else _OF_CATALOG
            for tool in tools[:: max(1, -(-len(tools) // most))]:
                fields = list(_list_fields(tool.output_parameters))
                if fields:
                    bare = tool.replace(output_parameters={}, namespace=f"n{len(found)}_{path.stem[:40]}")
                    found.setdefault(f"{kind}, {_choose_half(kind, path)}", []).append(Declared(bare, fields))
    return found


def _choose_half(kind: str, path: Path) -> str:
    if kind == "catalogs":
        return "fitted" if path.name.startswith("seal") else "kept"
    parts = path.name.replace("oaispec__", "oai__").split("__")
    publisher = "__".join(parts[: 2 if parts[0] == "guru" else 1])
    return "kept" if blake2b(publisher.encode()).digest()[0] & 1 else "fitted"


def _load_tools(path: Path, *, openapi: bool) -> tuple[Tool, ...]:
    options: dict[str, Any] = {"namespace": "n", "on_error": "skip", "on_duplicate": "skip"}
    loader = RESTToolLoader(str(path), **options) if openapi else FileToolLoader(str(path), **options)
    try:
        return tuple(ToolRegistry.from_loaders([loader]).snapshot.tools)
    except ToolyardError as error:
        print(f"  {path.name}: {error}", file=sys.stderr)
        return ()


def _add_guess(score: Score, declared: list[Field], guess: Mapping[str, Any]) -> None:
    """Count one guess."""
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
