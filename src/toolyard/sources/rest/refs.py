"""References: inside a document, and to files beside it. Nothing is ever fetched to follow one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.model.errors import MalformedSource, SourceUnavailable
from toolyard.parsing import read_bytes
from toolyard.sources.rest.text import read_text

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
        self._folders: dict[tuple[str, str], ResolvedRef | None] = {}

    def follow(self, ref: str, file: str = MAIN) -> ResolvedRef | None:
        """What `ref` stands for, through any chain of references; None, and a problem noted, if for nothing."""
        key = (file, ref)
        if key not in self._known:
            self._known[key] = self._beside(ref, file) or self._follow(ref, file, 0)
        return self._known[key]

    def _beside(self, ref: str, file: str) -> ResolvedRef | None:
        """The quick way: references mostly lead to neighbours of what an earlier one has led to."""
        head, _, name = ref.rpartition("/")
        key = (file, head)
        if key not in self._folders:
            found = self._follow(head, file, 0) if head[:2] == "#/" else None
            self._folders[key] = found if found is not None and type(found.node) is dict else None
        folder = self._folders[key]
        if folder is None or name not in folder.node or "~" in name or "%" in name:
            return None
        return ResolvedRef(folder.node[name], folder.file)

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

    def _follow(self, ref: str, file: str, hops: int) -> ResolvedRef | None:
        address, _, fragment = ref.partition("#")
        try:
            if hops > _MAX_HOPS:
                raise LookupError("the reference leads through itself")
            name = self._open(address, file) if address else file
            return self._walk(name, fragment, hops)
        except LookupError as error:
            self.problems[file, ref] = str(error.args[0])
            return None

    def _walk(self, name: str, fragment: str, hops: int) -> ResolvedRef:
        node = self.roots[name]
        if not fragment:
            return ResolvedRef(node, name)
        if fragment[0] != "/":
            return ResolvedRef(_find_anchor(node, fragment), name)
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if type(node) is dict and key not in node and type(node.get("$ref")) is str:
                between = self._follow(node["$ref"], name, hops + 1)
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

    def _open(self, address: str, file: str) -> str:
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
            self.roots[name] = self._read(target, name)
        if self.roots[name] is None:
            raise LookupError(f"{name} cannot be read")
        return name

    def _read(self, target: Path, name: str) -> Any:
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
