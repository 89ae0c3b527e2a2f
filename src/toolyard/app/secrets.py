"""Secrets of a config: which values are some, and errors on their way out without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.model.errors import CallError, ToolyardError
from toolyard.model.report import LoadReport, SourceReport
from toolyard.words.redactor import Redactor, looks_secret, names_a_secret

_SHORTEST = 6
_SHOWN = 60
_START = 16
_FLAGS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null"})
_WORDS = frozenset(
    {
        *("memory", "sqlite", "postgres", "normal", "strict", "release", "session", "python", "inline"),
        *("warning", "critical", "external", "toolyard", "localhost", "default"),
    }
)
"""What a config says itself; to hide such a word would hide it everywhere."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\]):\d{1,5}")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.-]*")
_PASSWORD = re.compile(r"(?i)password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")


def find_secrets(name: str, value: str, *, defaults: Iterable[str] = (), base: Path | None = None) -> list[str]:
    """What must be hidden of a value that the environment gave for `${name}`; nothing if it is plainly no secret.

    A name that says so makes almost any value a secret. Under another name it is one too, unless its form
    says that it is not, or the config has the same word as a default.
    """
    text = value.strip()
    if not text or text.lower() in _FLAGS:
        return []
    if not looks_secret(name):
        if _is_place(text, base):
            return []
        if not names_a_secret(name) and _is_plain(text, defaults):
            return []
    return [value, *_find_passwords(text)]


def _is_plain(text: str, defaults: Iterable[str]) -> bool:
    if len(text) < _SHORTEST or text.lower() in _WORDS or _NUMBER.fullmatch(text) or _HOST_AND_PORT.fullmatch(text):
        return True
    return bool(_IDENTIFIER.fullmatch(text)) and text in defaults


def _is_place(text: str, base: Path | None) -> bool:
    """A URL that carries no credentials, or a path that is there, or could be."""
    if "://" in text:
        try:
            url = urlsplit(text)
            return "@" not in text and not url.query and not url.fragment and bool(url.netloc or url.path)
        except ValueError:
            return False
    try:
        path = Path(text)
        if path.is_absolute() and len(path.parts) > 2 and path.parent.is_dir():
            return True
        return path.exists() or ((base or Path()) / path).exists()
    except (OSError, ValueError):
        return False


def _find_passwords(text: str) -> list[str]:
    """The parts of a connection string that errors may quote alone."""
    found = [part for match in _PASSWORD.finditer(text) for part in match.groups() if part]
    if "://" in text and "@" in text:
        user = text.split("://", 1)[1].rpartition("@")[0]
        password = user.partition(":")[2]
        found += [password, unquote(password)]
    return [part for part in found if len(part) >= _SHORTEST]


@contextmanager
def hide_secrets(secrets: Iterable[str]) -> Iterator[None]:
    """Take secrets out of any `ToolyardError` that passes. It stays the same object, with its class and fields.

    `secrets` is read when the error passes, so that what was collected on the way counts.
    """
    try:
        yield
    except ToolyardError as error:
        _clean_error(error, _make_redactor(secrets))
        raise


def clean_report(report: LoadReport, secrets: Iterable[str]) -> LoadReport:
    """A report that tells no secrets."""
    return LoadReport(tuple(clean_source_report(source, secrets) for source in report.sources))


def clean_source_report(report: SourceReport, secrets: Iterable[str]) -> SourceReport:
    """A report whose errors and rejections tell no secrets."""
    if not report.rejected and report.error is None:
        return report
    text = _make_redactor(secrets).text
    rejected = tuple(
        msgspec.structs.replace(item, where=text(item.where), reason=text(item.reason)) for item in report.rejected
    )
    error = None if report.error is None else text(report.error)
    return msgspec.structs.replace(report, source=text(report.source), rejected=rejected, error=error)


def _make_redactor(secrets: Iterable[str]) -> Redactor:
    known = list(secrets)
    return Redactor(known, patterns=_make_prefix_patterns(known))


def _make_prefix_patterns(secrets: list[str]) -> list[str]:
    """Long values are shown cut off, so that the whole is not found: their beginning stands for them."""
    long = [secret.strip() for secret in secrets if len(secret.strip()) > _SHOWN]
    starts = {start for secret in long for start in (secret[:_START], repr(secret)[1:-1][:_START])}
    return [re.escape(start) + r"[^\s'\"]*" for start in sorted(starts)]


def _clean_error(error: ToolyardError, redactor: Redactor) -> None:
    chain = list(_list_chained_errors(error))
    error.args = tuple(_clean_value(value, redactor) for value in error.args)
    for name, value in list(vars(error).items()):
        setattr(error, name, _clean_value(value, redactor))
    if isinstance(error, CallError):
        error.info = msgspec.convert(redactor.value(msgspec.to_builtins(error.info)), type(error.info))
    if any(_shows_secret(other, redactor) for other in chain):
        error.__cause__ = error.__context__ = None
        error.__suppress_context__ = True


def _clean_value(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if type(value) in (list, tuple):
        return type(value)(_clean_value(item, redactor) for item in value)
    return value


def _list_chained_errors(error: BaseException) -> Iterator[BaseException]:
    """Every exception reachable from this one, itself left out."""
    seen = {id(error)}
    waiting = [error.__cause__, error.__context__]
    while waiting:
        other = waiting.pop()
        if other is not None and id(other) not in seen:
            seen.add(id(other))
            yield other
            waiting += [other.__cause__, other.__context__]


def _shows_secret(error: BaseException, redactor: Redactor) -> bool:
    try:
        text = f"{error} {error!r} {vars(error)!r} {getattr(error, 'filename', '')}"
    except Exception:  # noqa: BLE001 - what cannot be looked at is not handed on
        return True
    return redactor.text(text) != text
