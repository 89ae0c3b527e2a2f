"""`Approvals`: what a server's tools were when somebody agreed to them.

A server may describe a tool kindly until it is in use, and otherwise afterwards. The file remembers what was said
the first time; what differs later is not a tool until it is approved again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import DefinitionError, MalformedSource, SourceError
from toolyard.model.fingerprint import digest
from toolyard.model.tool import Tool
from toolyard.parsing import parse_json
from toolyard.parsing.shared_file import lock_file, replace_file

_SHOWN_TO_PEOPLE = ("title", "annotations")
_SERVERS = "servers"
_MAX_BYTES = 64 * 1024 * 1024
_log = logging.getLogger(__name__)


class NotApprovedError(DefinitionError):
    """The tool is not the one that was approved."""


def approval_of(tool: Tool) -> str:
    """Equal as long as the tool is described in the same way."""
    return digest(tool.definition_hash, *(tool.metadata.get(key) for key in _SHOWN_TO_PEOPLE))


class Approvals:
    """The entries of one server in a file that several may share: `{"servers": {server: {tool: hash}}}`.

    A server that the file does not know is trusted as it is; so is a tool whose hash is null. Both are then filled in.
    Not so a server of which the file knows another of the same name: `place` tells apart where they are.
    """

    def __init__(self, path: Path, name: str, place: str) -> None:
        self.path = path
        self._name = f"{name} "
        self._server = f"{name} {place}"
        self._known: dict[str, str | None] | None = None
        self._new: dict[str, str] = {}

    def begin(self) -> None:
        """Read the file as it is now, at the start of a load."""
        document, self._known = self._read()
        self._new = {}
        others = [key for key in document[_SERVERS] if key.startswith(self._name) and key != self._server]
        if self._known is None and any(" " not in key.removeprefix(self._name) for key in others):
            _log.warning(
                "%s is reached otherwise than when its tools were approved in %s: none of them is, until somebody does",
                self._name.rstrip(),
                self.path,
            )
            self._known = {}

    def check(self, key: str, tool: Tool) -> None:
        """`NotApprovedError` unless the tool is as it was, or is trusted now."""
        current = approval_of(tool)
        if self._known is None:
            self._new[key] = current
            return
        agreed = self._known.get(key, "")
        if agreed is None:
            self._new[key] = current
        elif agreed != current:
            what = "has changed since it was approved" if agreed else "is new, and not approved yet"
            raise NotApprovedError(
                f"{what}; to approve it, call approve({tool.name!r}) of its loader, or set its entry in {self.path} "
                "to null, and load again"
            )

    def finish(self) -> None:
        """Write down what was trusted in this load; what somebody else agreed to meanwhile stays."""
        if self._known is None or self._new:
            self._add(self._new, over=False)

    def agree(self, entries: dict[str, str]) -> None:
        """Add entries, or put them in the place of older ones."""
        self._add(entries, over=True)

    def _add(self, entries: dict[str, str], *, over: bool) -> None:
        try:
            with lock_file(self.path):
                document, known = self._read()
                before = {key: value for key, value in (known or {}).items() if value is not None or key not in entries}
                merged = {**before, **entries} if over else {**entries, **before}
                document[_SERVERS][self._server] = dict(sorted(merged.items()))
                replace_file(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        except OSError as error:
            raise SourceError(f"{self.path}: approvals cannot be written: {error.strerror}") from None

    def _read(self) -> tuple[dict[str, Any], dict[str, str | None] | None]:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return {_SERVERS: {}}, None
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read: {error.strerror}") from None
        document = parse_json(data, what=str(self.path))
        servers = document.get(_SERVERS) if isinstance(document, dict) else None
        known = servers.get(self._server) if isinstance(servers, dict) else None
        whole = isinstance(servers, dict) and (known is None or _is_entries(known))
        if len(data) > _MAX_BYTES or not whole:
            raise MalformedSource('is no list of approvals: {"servers": {server: {tool: hash}}}', where=str(self.path))
        return document, known


def _is_entries(value: Any) -> bool:
    return isinstance(value, dict) and all(item is None or isinstance(item, str) for item in value.values())
