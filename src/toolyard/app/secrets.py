"""Secrets of a config: which values of variables are secret, and how they are removed from errors and reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from toolyard.model.errors import CallError, ToolyardError
from toolyard.model.report import LoadReport, SourceReport
from toolyard.parsing.variables import VARIABLE
from toolyard.words.redactor import Redactor, looks_secret, names_a_secret

_MIN_LENGTH = 6
_TRUNCATED_AT = 60
_PREFIX_LENGTH = 16
_FLAG_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null"})
_CONFIG_WORDS = frozenset(
    {
        *("memory", "sqlite", "postgres", "normal", "strict", "release", "session", "python", "inline"),
        *("warning", "critical", "external", "toolyard", "localhost", "default"),
    }
)
"""Words of the config format itself; hiding one of them as a secret would hide it everywhere."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\]):\d{1,5}")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.-]*")
_PASSWORD = re.compile(r"(?i)password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))")


def find_secrets(name: str, value: str, *, defaults: Iterable[str] = (), base: Path | None = None) -> list[str]:
    """Texts to hide for a value that the environment gave for `${name}`; none if it is clearly not secret.

    If the name indicates a secret, almost any value is hidden. Otherwise it is hidden as well, unless its form shows
    that it is not secret, or the config has the same word as a default.
    """
    text = value.strip()
    if not text or text.lower() in _FLAG_WORDS:
        return []
    if not looks_secret(name):
        if _is_public_location(text, base):
            return []
        if not names_a_secret(name) and _is_harmless(text, defaults):
            return []
    return [value, *_find_passwords(text)]


def _is_harmless(text: str, defaults: Iterable[str]) -> bool:
    if len(text) < _MIN_LENGTH or text.lower() in _CONFIG_WORDS:
        return True
    if _NUMBER.fullmatch(text) or _HOST_AND_PORT.fullmatch(text):
        return True
    return bool(_IDENTIFIER.fullmatch(text)) and text in defaults


def _is_public_location(text: str, base: Path | None) -> bool:
    """True for a URL without credentials, or a path that exists or could exist."""
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
    """The parts of a connection string that errors may quote on their own."""
    found = [part for match in _PASSWORD.finditer(text) for part in match.groups() if part]
    if "://" in text and "@" in text:
        user = text.split("://", 1)[1].rpartition("@")[0]
        password = user.partition(":")[2]
        found += [password, unquote(password)]
    return [part for part in found if len(part) >= _MIN_LENGTH]


@contextmanager
def hide_secrets(secrets: Iterable[str]) -> Iterator[None]:
    """Remove secrets from any `ToolyardError` raised inside. The error keeps its identity, class and fields.

    `secrets` is read when the error is raised, so it may be extended inside the block.
    """
    try:
        yield
    except ToolyardError as error:
        _clean_error(error, _make_redactor(secrets))
        raise


def clean_report(report: LoadReport, secrets: Iterable[str]) -> LoadReport:
    """The report without secrets in its errors and rejections."""
    return LoadReport(tuple(_clean_source(source, secrets) for source in report.sources))


def _clean_source(report: SourceReport, secrets: Iterable[str]) -> SourceReport:
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
    # Errors show long values truncated, so match them by their beginning.
    long = [secret.strip() for secret in known if len(secret.strip()) > _TRUNCATED_AT]
    starts = {start for secret in long for start in (secret[:_PREFIX_LENGTH], repr(secret)[1:-1][:_PREFIX_LENGTH])}
    return Redactor(known, patterns=[re.escape(start) + r"[^\s'\"]*" for start in sorted(starts)])


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
    """Every exception chained to this one, directly or indirectly."""
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
    except Exception:  # noqa: BLE001 - if it cannot be checked, do not pass it on
        return True
    return redactor.text(text) != text


def find_variable_defaults(value: Any) -> set[str]:
    """All defaults of variables in a config."""
    if isinstance(value, str):
        return {match[2] for match in VARIABLE.finditer(value) if match[2]}
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {default for item in items for default in find_variable_defaults(item)}
