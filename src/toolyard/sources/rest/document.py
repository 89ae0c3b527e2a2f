"""One document: which version of which format it is, and where its operations lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.model.json_words import pointer_of
from toolyard.sources.rest.notes import Notes
from toolyard.sources.rest.refs import Files, ResolvedRef

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


class Site(msgspec.Struct, frozen=True):
    """One operation where it lies; `fault` says why it cannot be read."""

    method: str
    path: str
    place: str
    raw: Any
    item: dict[str, Any]
    file: str
    fault: str = ""


class SpecVersion(NamedTuple):
    """Swagger is 2.0; OpenAPI begins with 3.0."""

    major: int
    minor: int


def version_of(document: Any, source: str) -> SpecVersion:
    """The version a document says it has; `MalformedSource` if it is neither OpenAPI nor Swagger."""
    if type(document) is not dict:
        raise MalformedSource("an OpenAPI document is a mapping; is this the right file?", where=source)
    said = document.get("openapi", document.get("swagger"))
    numbers = [int(part) if part.isdecimal() else 0 for part in str(said).split(".")[:2]] if said is not None else []
    if not numbers or numbers[0] not in (2, 3) or ("swagger" in document and numbers[0] != 2):
        shown = repr(said)[:40] if said is not None else "no version"
        raise MalformedSource(f"{shown}: expected 'openapi: 3.x' or 'swagger: \"2.0\"'", where=source)
    return SpecVersion(numbers[0], numbers[1] if len(numbers) > 1 else 0)


def sites(document: dict[str, Any], version: SpecVersion, files: Files, notes: Notes) -> Iterator[Site]:
    """Every operation in the order of the document, also those that cannot be read."""
    paths = files.settle(document.get("paths"))
    if type(paths.node) is not dict:
        if paths.node is not None:
            notes.add("#/paths", "paths are not a mapping; left out")
        paths = ResolvedRef({}, paths.file)
    methods = _METHODS | {"query"} if version >= (3, 2) else _METHODS
    for path, raw in paths.node.items():
        if type(path) is not str or path[:2] == "x-":
            continue
        yield from _of_path(path, raw, paths.file, methods, files)
    hooks = document.get("webhooks")
    if type(hooks) is dict and hooks:
        count = sum(
            1 for hook in hooks.values() if type(hook) is dict for method in hook if str(method).lower() in methods
        )
        notes.add("#/webhooks", "webhooks are calls to you, not operations; left out", count=max(count, 1))


def _of_path(path: str, raw: Any, file: str, methods: frozenset[str], files: Files) -> Iterator[Site]:
    place = f"#/paths{pointer_of([path])}"
    if type(raw) is dict and "$ref" not in raw:
        item = raw
    else:
        settled = files.settle(raw, file)
        item = settled.node if type(settled.node) is dict else {}
        if type(settled.node) is not dict or "$ref" in settled.node:
            # Nobody can tell how many operations there are behind it; it counts as one.
            why = files.problems.get((file, str(raw.get("$ref"))), "") if type(raw) is dict else ""
            fault = f"the path cannot be read: {why or 'it is not a mapping'}"
            yield Site("", path, place, None, {}, file, fault)
            return
        file = settled.file
        if len(raw) > 1:
            item = {**item, **{key: value for key, value in raw.items() if key != "$ref"}}
    for key, operation in item.items():
        method = key if key in methods else str(key).lower()
        if method in methods and (method == key or method not in item):
            yield Site(method.upper(), path, f"{place}/{key}", operation, item, file)
    added = item.get("additionalOperations")
    if type(added) is dict:
        for name, operation in added.items():
            yield Site(str(name), path, f"{place}/additionalOperations{pointer_of([name])}", operation, item, file)
