"""`TokenFile`: where tokens are kept from one process to the next: in a file for its owner only, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import ConfigError, MalformedSource, Unavailable
from toolyard.parsing import parse_json
from toolyard.parsing.shared_file import lock_file, replace_file

_OTHERS = 0o077


class TokenFile:
    """The entry of one server in a file that several may share; without a path it is only remembered."""

    def __init__(self, path: str | None, key: str) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._key = key
        entry = self._read().get(key)
        self._entry: dict[str, Any] = dict(entry) if isinstance(entry, dict) else {}

    @property
    def tokens(self) -> dict[str, Any] | None:
        """What the authorization server gave."""
        return self._part("tokens")

    @property
    def client(self) -> dict[str, Any] | None:
        """As what we are registered there."""
        return self._part("client")

    def save(self, **parts: dict[str, Any]) -> None:
        """Keep these; the file is replaced as a whole, so it is never half written. What fails is a `CallError`."""
        self._entry |= parts
        if self._path is None:
            return
        try:
            with lock_file(self._path):
                # Others may have written their entries since.
                content = {**self._read(), self._key: self._entry}
                replace_file(self._path, msgspec.json.encode(content))
        except OSError as error:
            raise _unusable(f"the token store {self._path} cannot be written: {error.strerror}") from None
        except ConfigError as error:
            raise _unusable(str(error)) from None

    def __repr__(self) -> str:
        return f"<TokenFile {self._path or 'in memory'}>"

    def _part(self, name: str) -> dict[str, Any] | None:
        part = self._entry.get(name)
        return part if isinstance(part, dict) else None

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS:
                    raise ConfigError(f"{self._path} holds tokens and can be read by others; chmod 600 it first")
                value = parse_json(file.read(), what="token store")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"the token store {self._path} cannot be read: {error.strerror}") from None
        except MalformedSource:
            raise ConfigError(f"the token store {self._path} is not one; move it away to begin a new one") from None
        return value if isinstance(value, dict) else {}


def _unusable(reason: str) -> Unavailable:
    return Unavailable(reason, retryable=False, hint="let the store of auth be a file that this process may change")
