"""A document and the files it refers to: fetched or read, its references followed, its operations listed.

Reading is more forgiving than that of a catalog: nobody here wrote the document, nor can mend it. What a load has to
tell about it, every loss and every rename with the place it was found at, is collected in `Notes`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.links.http.addresses import with_port
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing
from toolyard.links.http.url import read_url
from toolyard.model.errors import CallError, MalformedSource, SourceUnavailable
from toolyard.model.json_words import pointer_of
from toolyard.model.report import Rewrite
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.parsing.json_text import BOM
from toolyard.parsing.yaml import normalise_lines

_MAX_DEPTH = 200
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


def read_text(data: bytes, what: str) -> tuple[Any, list[str]]:
    """The document, and what had to be overlooked to read it; `MalformedSource` if it cannot be read at all.

    JSON is recognised by its first character, whatever the name of the file says.
    """
    is_json = data.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
    try:
        return (parse_json if is_json else parse_yaml)(data, what=what), []
    except MalformedSource as error:
        return (_forgiving_json if is_json else _forgiving_yaml)(data, what, error)


def _forgiving_json(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    try:
        document = msgspec.json.decode(data.removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Braces and comments, or keys without quotes: that is YAML.
        try:
            return parse_yaml(data, what=what), [f"read as YAML, because as JSON: {error}"]
        except MalformedSource:
            raise error from None
    # However deep it is: all that reads a document here bounds itself.
    return document, [f"read in spite of this, with the last of equal keys: {error}"]


def _forgiving_yaml(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    from toolyard.parsing.yaml.builder import build_document

    try:
        text = normalise_lines(data).decode()
    except UnicodeDecodeError:
        raise error from None
    cleaned = _CONTROLS.sub(" ", text)
    repeated: list[str] = []
    document = build_document(cleaned, what, _MAX_DEPTH, repeated)
    overlooked = [f"the last of two values for one key kept: {place}" for place in repeated[:20]]
    if cleaned != text:
        overlooked.append("control characters replaced by spaces")
    return document, overlooked


_ACCEPT = ("accept", "application/json, */*;q=0.5")


def fetch_document(url: str, *, headers: Mapping[str, str], timeout: float, max_bytes: int) -> bytes:
    """What the address answers; `SourceUnavailable` unless that is a document. Redirects stay within its origin."""
    try:
        target = read_url(url)
        request = Outgoing(
            method="GET",
            url=url,
            headers=(*headers.items(), _ACCEPT),
            deadline=time.monotonic() + timeout,
            # The operator wrote this address, so it may be private; what it leads to may not.
            named=(with_port(target.host, target.port),),
        )
        with GuardedClient(max_bytes=max_bytes) as client:
            answer = client.send(request)
    except CallError as error:
        raise SourceUnavailable(f"{_show_url(url)}: {error}") from error
    if 300 <= answer.status < 400:
        raise SourceUnavailable(
            f"{_show_url(url)} answers {answer.status}: the document is elsewhere; give that address"
        )
    if answer.status != 200:
        raise SourceUnavailable(f"{_show_url(url)} answers {answer.status} instead of a document")
    return answer.body


def _show_url(url: str) -> str:
    """Without the query, which may hold a key."""
    return url.partition("?")[0]


MAIN = ""
"""The name of the document itself among the files."""

_MAX_FILES = 5_000
_MAX_HOPS = 32


class ResolvedRef(msgspec.Struct, frozen=True):
    """What a reference leads to, and the file it lies in, by which references inside of it are read."""

    node: Any
    file: str


class Files:
    """The document, and the files its references lead to, each read once.

    `root` is the folder no reference may leave, by `..` or by a link; None follows no reference to a file.
    """

    def __init__(self, document: Any, path: Path | None, root: Path | None, max_bytes: int) -> None:
        self.roots: dict[str, Any] = {MAIN: document}
        self.problems: dict[tuple[str, str], str] = {}
        """Why references could not be followed, by file and reference."""
        self._path = path.resolve() if path is not None else None
        self._root = root.resolve() if root is not None else None
        self._left = max_bytes
        self._known: dict[tuple[str, str], ResolvedRef | None] = {}

    def follow(self, ref: str, file: str = MAIN) -> ResolvedRef | None:
        """What `ref` stands for, through any chain of references; None, and a problem noted, if for nothing."""
        key = (file, ref)
        if key not in self._known:
            self._known[key] = self._follow_ref(ref, file, 0)
        return self._known[key]

    def settle(self, node: Any, file: str = MAIN) -> ResolvedRef:
        """The node itself, or what it refers to; the node as it is if that cannot be found."""
        if type(node) is not dict or "$ref" not in node:
            return ResolvedRef(node, file)
        for _ in range(_MAX_HOPS):
            ref = node.get("$ref") if type(node) is dict else None
            if type(ref) is not str:
                break
            found = self.follow(ref, file)
            if found is None:
                break
            node, file = found.node, found.file
        return ResolvedRef(node, file)

    def _follow_ref(self, ref: str, file: str, hops: int) -> ResolvedRef | None:
        address, _, fragment = ref.partition("#")
        try:
            if hops > _MAX_HOPS:
                raise LookupError("the reference leads through itself")
            name = self._open_file(address, file) if address else file
            return self._walk_pointer(name, fragment, hops)
        except LookupError as error:
            self.problems[file, ref] = str(error.args[0])
            return None

    def _walk_pointer(self, name: str, fragment: str, hops: int) -> ResolvedRef:
        node = self.roots[name]
        if not fragment:
            return ResolvedRef(node, name)
        if fragment[0] != "/":
            return ResolvedRef(_find_anchor(node, fragment), name)
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if type(node) is dict and key not in node and type(node.get("$ref")) is str:
                between = self._follow_ref(node["$ref"], name, hops + 1)
                if between is None:
                    raise LookupError(f"a reference on the way to {fragment[:200]!r} leads nowhere")
                node, name = between.node, between.file
            if type(node) is dict and key in node:
                node = node[key]
            elif type(node) is list and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise LookupError(f"there is nothing at {fragment[:200]!r}")
        return ResolvedRef(node, name)

    def _open_file(self, address: str, file: str) -> str:
        """The name of the file, read and kept."""
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or self._path is None or self._root is None:
            raise LookupError("remote references are never fetched; save the file beside the document")
        here = self._root / file if file else self._path
        target = (here.parent / unquote(parts.path)).resolve()
        if target == self._path:
            return MAIN
        if not target.is_relative_to(self._root):
            raise LookupError("the file lies outside of the folder references may lead to")
        name = target.relative_to(self._root).as_posix()
        if name not in self.roots:
            self.roots[name] = self._read_file(target, name)
        if self.roots[name] is None:
            raise LookupError(f"{name} cannot be read")
        return name

    def _read_file(self, target: Path, name: str) -> Any:
        if len(self.roots) > _MAX_FILES:
            raise LookupError(f"more than {_MAX_FILES:,} files are referred to")
        try:
            data = read_bytes(target, max_bytes=max(self._left, 1))
            self._left -= len(data)
            return read_text(data, name)[0]
        except (SourceUnavailable, MalformedSource) as error:
            self.roots[name] = None
            raise LookupError(f"{name} cannot be read: {type(error).__name__}") from error


def _find_anchor(root: Any, anchor: str) -> Any:
    """The schema that calls itself `$anchor`."""
    stack = [root]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
                return node
            stack.extend(reversed(node.values()))
        elif type(node) is list:
            stack.extend(reversed(node))
    raise LookupError(f"nothing is called {anchor[:200]!r}")


class Notes:
    """Collects changes while a document is read; equal ones of one tool are counted together.

    Schemas are converted without keeping track of where they lie, because almost none has anything to tell.
    The few that do are looked for afterwards, by identity.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.near = ""
        """The place now being read, for what was made up on the way and lies nowhere itself."""
        self._found: dict[tuple[str, str], tuple[str, int]] = {}
        self._unplaced: list[tuple[dict[str, Any], str, str]] = []

    def add(self, pointer: str, change: str, tool: str = "", count: int = 1) -> None:
        """One change whose place is known; without a tool it is the document's."""
        key = (tool or self._source, change)
        first, before = self._found.get(key, (pointer, 0))
        self._found[key] = (first, before + count)

    def at(self, node: dict[str, Any], change: str) -> None:
        """One change somewhere in the documents: at this very object."""
        self._unplaced.append((node, change, self.near))

    def rewrites(self, files: dict[str, Any]) -> tuple[Rewrite, ...]:
        """Everything noted, as lines of a report."""
        if self._unplaced:
            places = _find_places(files, {id(node) for node, _, _ in self._unplaced})
            for node, change, near in self._unplaced:
                self.add(places.get(id(node), near), change)
            self._unplaced = []
        return tuple(Rewrite(tool, place, change, count) for (tool, change), (place, count) in self._found.items())


def _find_places(files: dict[str, Any], wanted: set[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for name, root in files.items():
        stack: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
        while stack and len(found) < len(wanted):
            path, node = stack.pop()
            if id(node) in wanted:
                found.setdefault(id(node), f"{name}#{pointer_of(path)}")
            if isinstance(node, dict):
                stack.extend(((*path, key), value) for key, value in node.items() if isinstance(value, (dict, list)))
            else:
                stack.extend(
                    ((*path, index), value) for index, value in enumerate(node) if isinstance(value, (dict, list))
                )
    return found


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


def list_operations(document: dict[str, Any], version: SpecVersion, files: Files, notes: Notes) -> Iterator[Site]:
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
        yield from _operations_of_path(path, raw, paths.file, methods, files)
    hooks = document.get("webhooks")
    if type(hooks) is dict and hooks:
        count = sum(
            1 for hook in hooks.values() if type(hook) is dict for method in hook if str(method).lower() in methods
        )
        notes.add("#/webhooks", "webhooks are calls to you, not operations; left out", count=max(count, 1))


def _operations_of_path(path: str, raw: Any, file: str, methods: frozenset[str], files: Files) -> Iterator[Site]:
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
