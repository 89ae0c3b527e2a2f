"""Read a document and the files it refers to, resolve references, and list operations.

Reading is more lenient than for a catalog, since the operator usually cannot fix the document. Every loss and every
rename is collected in `Notes`, with its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.links.http.addresses import read_url, with_port
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Credential, Outgoing
from toolyard.model.errors import CallError, DefinitionError, MalformedSource, SourceUnavailable
from toolyard.model.json_schema import pointer_of
from toolyard.model.report import Rewrite
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.parsing.files import BOM

_TABS_BEFORE_COMMENT = re.compile(r"^ *+\t[ \t]*+(?=#)", re.MULTILINE)
"""YAML allows them, its parsers do not."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


def read_text(data: bytes, what: str) -> tuple[Any, list[str]]:
    """The document, and the faults that were tolerated to read it; `MalformedSource` if it cannot be read.

    JSON is recognised by its first character, whatever the file's suffix is.
    """
    start = data.removeprefix(BOM).lstrip()[:2]
    if start[:1] == b"<" and start != b"<<":  # which may begin YAML
        raise MalformedSource("a web page or XML, not an OpenAPI document; name its JSON or YAML", where=what)
    is_json = start[:1] in (b"{", b"[")
    try:
        return (parse_json if is_json else parse_yaml)(data, what=what), []
    except MalformedSource as error:
        return (_forgiving_json if is_json else _forgiving_yaml)(data, what, error)


def _forgiving_json(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    try:
        document = msgspec.json.decode(data.removeprefix(BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Braces with comments or unquoted keys: valid as YAML.
        try:
            return parse_yaml(data, what=what), [f"read as YAML, because as JSON: {error}"]
        except MalformedSource:
            raise error from None
    # The depth need not be limited here: everything that reads the document has its own limit.
    return document, [f"read in spite of this, with the last of equal keys: {error}"]


def _forgiving_yaml(data: bytes, what: str, error: MalformedSource) -> tuple[Any, list[str]]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise error from None
    cleaned = _TABS_BEFORE_COMMENT.sub("", _CONTROLS.sub(" ", text))
    repeated: list[str] = []
    document = parse_yaml(cleaned, what=what, repeated=repeated)
    overlooked = [f"the last of two values for one key kept: {place}" for place in repeated[:20]]
    if cleaned != text:
        overlooked.append("control characters replaced by spaces, and those before comments removed")
    return document, overlooked


_ACCEPT = ("accept", "application/json, */*;q=0.5")


def fetch_document(
    url: str, *, headers: Mapping[str, str], credential: Credential | None, timeout: float, max_bytes: int
) -> bytes:
    """Fetch the document; `SourceUnavailable` unless the status is 200. Redirects stay within the origin."""
    try:
        target = read_url(url)
        request = Outgoing(
            method="GET",
            url=url,
            headers=(*headers.items(), _ACCEPT),
            deadline=time.monotonic() + timeout,
            credential=credential,
            # The operator configured this URL, so its host may be private; the target of a redirect may not.
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
    if answer.status in (401, 403):
        advice = (
            "it rejected the credential; check whether `auth` or `headers` are still right"
            if headers or credential
            else "it requires authentication; give the source a credential, "
            'auth: {type: bearer, token: "${NAME}"}, where NAME is an environment variable'
        )
        raise SourceUnavailable(f"{_show_url(url)} answers {answer.status}: {advice}")
    if answer.status != 200:
        raise SourceUnavailable(f"{_show_url(url)} answers {answer.status} instead of a document")
    return answer.body


def _show_url(url: str) -> str:
    """The URL without its query, which may contain a key."""
    return url.partition("?")[0]


UNEXPECTED_FORM = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions that a document of an unexpected form may cause."""

MAIN = ""
"""The name of the main document among the files."""

CIRCULAR = "it leads back to itself"
"""The problem of a reference cycle that contains no definition."""

_MAX_FILES = 5_000
_MAX_HOPS = 64
_DIGITS = 10
_TEXTS = frozenset({".md", ".txt", ".html"})
"""Suffixes of files that contain text, as descriptions refer to."""


class ResolvedRef(msgspec.Struct, frozen=True):
    """A node and the file it is in, against which its references are resolved.

    A generated node may contain parts that are in other files, as values of this type.
    """

    node: Any
    file: str
    beside: Mapping[str, str] = {}
    """The files of keys that were merged from beside a reference."""

    @property
    def mapping(self) -> dict[str, Any]:
        """The node if it is a mapping, else an empty one."""
        return self.node if type(self.node) is dict else {}

    def inside(self, key: str) -> ResolvedRef:
        """The value of a key, with its file; None if this is not a mapping."""
        found = self.mapping.get(key)
        return found if type(found) is ResolvedRef else ResolvedRef(found, self.beside.get(key, self.file))


class Files:
    """The document and the files its references lead to, each read once.

    `root` is the folder that references must not leave, by `..` or by a link; None disables references to files.
    """

    def __init__(self, document: Any, path: Path | None, root: Path | None, max_bytes: int, notes: Notes) -> None:
        self.roots: dict[str, Any] = {MAIN: document}
        self._path = path.resolve() if path is not None else None
        self._root = root.resolve() if root is not None else None
        self._left = max_bytes
        self._notes = notes
        self._known: dict[tuple[str, str], ResolvedRef | str] = {}
        """Targets of references by file and reference, or why there is none."""
        self._anchors: dict[str, dict[str, Any]] = {}
        self._hops = 0

    def try_resolve(self, here: ResolvedRef) -> ResolvedRef:
        """The node, or the target of its reference; None, with a note, if that cannot be found.

        `DefinitionError` for a circular reference.
        """
        node = here.node
        if type(node) is not dict or "$ref" not in node:
            return here
        try:
            return self.resolve(here)
        except LookupError as error:
            ref, why = str(node["$ref"])[:200], str(error.args[0])
            if why == CIRCULAR:
                raise DefinitionError(f"the reference {ref!r} cannot be followed: {why}") from None
            self._notes.at(node, f"reference {ref!r} cannot be read, and what it stands for is left out: {why}")
            return ResolvedRef(None, here.file)

    def resolve(self, here: ResolvedRef) -> ResolvedRef:
        """The target of a chain of references; `LookupError` says why it cannot be found.

        Keys beside a reference override those of its target.
        """
        passed: set[int] = set()
        beside: dict[str, Any] = {}
        files: dict[str, str] = {}
        while type(ref := here.mapping.get("$ref")) is str:
            if id(here.node) in passed:
                raise LookupError(CIRCULAR)
            passed.add(id(here.node))
            for key, value in here.node.items():
                if key != "$ref" and key not in beside:
                    beside[key], files[key] = value, here.file
            here = self.follow(ref, here.file)
        if "$ref" in here.mapping:
            raise LookupError("it is not text")
        if beside and type(here.node) is dict:
            return ResolvedRef({**here.node, **beside}, here.file, files)
        return here

    def follow(self, ref: str, file: str = MAIN) -> ResolvedRef:
        """The target of `ref`; `LookupError` says why it cannot be found."""
        key = (file, ref)
        if key not in self._known:
            # Until it is resolved, another visit means a cycle.
            self._known[key] = CIRCULAR
            address, _, fragment = ref.partition("#")
            self._hops += 1
            try:
                if self._hops > _MAX_HOPS:
                    raise LookupError(f"it leads through more than {_MAX_HOPS} others")
                name = self._open_file(address, file) if address else file
                self._known[key] = self._walk_pointer(name, fragment)
            except LookupError as error:
                self._known[key] = str(error.args[0])
            finally:
                self._hops -= 1
        found = self._known[key]
        if isinstance(found, str):
            raise LookupError(found)
        return found

    def _walk_pointer(self, name: str, fragment: str) -> ResolvedRef:
        here = ResolvedRef(self.roots[name], name)
        if not fragment or (fragment == "/" and "" not in here.mapping):
            return here  # Strictly, a slash means the empty key; in practice it means the file.
        if "/" not in fragment:
            return ResolvedRef(self._find_anchor(name, fragment), name)
        for part in unquote(fragment).removeprefix("/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if type(here.node) is dict and key not in here.node:
                here = self.resolve(here)
            node = here.node
            if type(node) is dict and key in node:
                here = here.inside(key)
            elif type(node) is list and key.isdecimal() and len(key) < _DIGITS and int(key) < len(node):
                here = ResolvedRef(node[int(key)], here.file)
            else:
                raise LookupError(f"there is nothing at {fragment[:200]!r}")
        return here

    def _find_anchor(self, name: str, anchor: str) -> Any:
        """The schema with that `$anchor`."""
        if name not in self._anchors:
            self._anchors[name] = _list_anchors(self.roots[name])
        if anchor not in self._anchors[name]:
            raise LookupError(f"nothing is called {anchor[:200]!r}")
        return self._anchors[name][anchor]

    def _open_file(self, address: str, file: str) -> str:
        """Read the file if necessary, and return its name."""
        try:
            parts = urlsplit(address)
        except ValueError:
            raise LookupError("the reference has no valid host") from None
        if parts.scheme or parts.netloc or self._path is None or self._root is None:
            raise LookupError("remote references are never fetched; save the file beside that of the document")
        here = self._root / file if file else self._path
        target = (here.parent / unquote(parts.path).replace("\\", "/")).resolve()
        if target == self._path:
            return MAIN
        if not target.is_relative_to(self._root):
            raise LookupError(
                "the file lies outside of the folder references may lead to; `ref_root` names a wider one"
            )
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
            return data.decode(errors="replace") if target.suffix in _TEXTS else read_text(data, name)[0]
        except (SourceUnavailable, MalformedSource) as error:
            self.roots[name] = None
            # A message that begins with the name is about the content; others show paths of this machine.
            told = f": {error}" if str(error).startswith(name) else ""
            raise LookupError(f"{name} cannot be read{told}") from error


def is_required(raw: Mapping[str, Any]) -> bool:
    """Whether a parameter or a body is marked as required; documents also say so in text, or in a list."""
    said = raw.get("required")
    said = said[0] if type(said) is list and len(said) == 1 else said
    return said is True or (type(said) is str and said.lower() in ("true", "yes"))


def list_parameters(listed: ResolvedRef, files: Files) -> Iterator[ResolvedRef]:
    """The parameters in a list; a reference to another list is expanded."""
    for item in listed.node if type(listed.node) is list else ():
        shared: ResolvedRef | None = None
        if type(item) is dict and type(item.get("$ref")) is str:
            with suppress(LookupError):  # noted when the parameter is read
                shared = files.follow(item["$ref"], listed.file)
        if shared is not None and type(shared.node) is list:
            yield from [ResolvedRef(entry, shared.file) for entry in shared.node]
        else:
            yield ResolvedRef(item, listed.file)


def _list_anchors(root: Any) -> dict[str, Any]:
    """Schemas by their anchors."""
    found: dict[str, Any] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            for key in ("$anchor", "$dynamicAnchor"):
                if type(node.get(key)) is str:
                    found.setdefault(node[key], node)
            stack.extend(reversed(node.values()))
        elif type(node) is list:
            stack.extend(reversed(node))
    return found


class Notes:
    """Collects changes while a document is read; equal changes of one tool are counted together.

    Schemas are converted without tracking their places, because almost none needs a note. The few that do are found
    afterwards by identity.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.current_place = ""
        """The place that is being read, for notes on generated nodes, which are not in any file."""
        self._found: dict[tuple[str, str], tuple[str, int]] = {}
        self._unplaced: list[tuple[dict[str, Any], str, str]] = []

    def add(self, pointer: str, change: str, tool: str = "", count: int = 1) -> None:
        """Note a change at a known place; without a tool it concerns the document."""
        key = (tool or self._source, change)
        first, before = self._found.get(key, (pointer, 0))
        self._found[key] = (first, before + count)

    def at(self, node: dict[str, Any], change: str) -> None:
        """Note a change at this object; its place is found later."""
        self._unplaced.append((node, change, self.current_place))

    def rewrites(self, files: dict[str, Any]) -> tuple[Rewrite, ...]:
        """All notes as lines of a report."""
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
            # A file may hold a single value or nothing, such as the text of a description.
            items = node.items() if type(node) is dict else enumerate(node) if type(node) is list else ()
            stack.extend([((*path, key), value) for key, value in items if isinstance(value, (dict, list))])
    return found


_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


class Site(msgspec.Struct, frozen=True):
    """One operation with its path item; `fault` says why it cannot be read."""

    method: str
    path: str
    place: str
    operation: ResolvedRef
    item: ResolvedRef
    fault: str = ""

    @property
    def raw(self) -> Any:
        """The operation object."""
        return self.operation.node


class SpecVersion(NamedTuple):
    """The version of a document: 2.0 for Swagger, 3.0 or later for OpenAPI."""

    major: int
    minor: int


def version_of(document: Any, source: str) -> SpecVersion:
    """The version that a document declares; `MalformedSource` if it is neither OpenAPI nor Swagger."""
    if type(document) is not dict:
        raise MalformedSource("an OpenAPI document is a mapping; is this the right file?", where=source)
    declared = document.get("openapi", document.get("swagger"))
    parts = [] if declared is None else str(declared).split(".")[:2]
    numbers = [int(part) if part.isdecimal() else 0 for part in parts]
    if not numbers or numbers[0] not in (2, 3) or ("swagger" in document and numbers[0] != 2):
        shown = repr(declared)[:40] if declared is not None else "no version"
        raise MalformedSource(f"{shown}: expected 'openapi: 3.x' or 'swagger: \"2.0\"'", where=source)
    return SpecVersion(numbers[0], numbers[1] if len(numbers) > 1 else 0)


_EMPTY = ResolvedRef({}, MAIN)


def list_operations(document: dict[str, Any], version: SpecVersion, files: Files, notes: Notes) -> Iterator[Site]:
    """Every operation in document order, including those that cannot be read."""
    paths, fault = _resolve_mapping(ResolvedRef(document, MAIN).inside("paths"), "the paths", files)
    if fault and type(document.get("paths")) is dict:
        # The number of operations is unknown, so this counts as one.
        yield Site("", "", "#/paths", _EMPTY, _EMPTY, fault)
    elif fault and document.get("paths") is not None:
        notes.add("#/paths", "paths are not a mapping; left out")
    methods = _METHODS | {"query"} if version >= (3, 2) else _METHODS
    for path in paths.node:
        if type(path) is str and path[:2] != "x-":
            yield from _operations_of_path(path, paths.inside(path), methods, files)
    hooks = document.get("webhooks")
    if type(hooks) is dict and hooks:
        count = sum(
            1 for hook in hooks.values() if type(hook) is dict for method in hook if str(method).lower() in methods
        )
        notes.add("#/webhooks", "webhooks are calls to you, not operations; left out", count=max(count, 1))


def _operations_of_path(path: str, here: ResolvedRef, methods: frozenset[str], files: Files) -> Iterator[Site]:
    place = f"#/paths{pointer_of([path])}"
    item, fault = _resolve_mapping(here, "the path", files)
    if fault:
        yield Site("", path, place, _EMPTY, _EMPTY, fault)
        return
    found = [
        (str(key).upper(), f"{place}/{key}", item.inside(key))
        for key in item.node
        if key in methods or (str(key).lower() in methods and str(key).lower() not in item.node)
    ]
    added = item.inside("additionalOperations")
    for name in added.mapping:
        found.append((str(name), f"{place}/additionalOperations{pointer_of([name])}", added.inside(name)))
    for method, where, raw in found:
        operation, fault = _resolve_mapping(raw, "the operation", files)
        yield Site(method, path, where, operation, item, fault)


def _resolve_mapping(here: ResolvedRef, what: str, files: Files) -> tuple[ResolvedRef, str]:
    """Resolve a path item or an operation; if it cannot be read, an empty one and the reason."""
    try:
        found = files.resolve(here) if "$ref" in here.mapping else here
    except LookupError as error:
        return _EMPTY, f"{what} cannot be read, reference {str(here.node['$ref'])[:200]!r}: {error.args[0]}"
    if type(found.node) is not dict:
        return _EMPTY, f"{what} cannot be read: it is not a mapping"
    return found, ""
