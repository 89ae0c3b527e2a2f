"""`Redactor`: removes known secrets, and text that looks like one, from logs and traces.

Known secrets are found in the forms that errors and wires give them: verbatim, JSON-escaped, percent-encoded, in
base64. Unknown ones are found by the patterns below, which run in linear time on any text: none can restart inside
a run that it has read, and the one that spans lines matches the rest of the text if its end is missing.

A result is data: unlike a log it keeps text that merely looks like a secret. Only the credentials sent with the call
are removed from it, in the same forms (`CredentialFinder`).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from toolyard.model.errors import ConfigError
from toolyard.model.json_schema import list_given, split_pointer
from toolyard.words.identifiers import split_ascii_identifier

REDACTED = "[redacted]"

_MIN_SECRET = 4
_DEEPEST = 200
_SECRET_KEYS = (
    *("password", "passwd", "secret", "token", "apikey", "authorization"),
    *("cookie", "credential", "privatekey", "accesskey"),
)
# Token counts and pagination cursors: ordinary data with the word token in its name.
_ORDINARY = re.compile(
    r"(?:max|min|total|prompt|completion|input|output|cached|reasoning|num|used|remaining)tokens"
    r"|(?:page|next|previous|continuation|cursor|sync)token"
)
_NAME_WORDS = frozenset({"pass", "pwd", "passphrase", "pat", "salt", "auth", "dsn"})
_KEY_WORD = r"(?:passw(?:or)?d|secret|token|api[_-]?key|authorization|cookie|credentials?|(?:private|access)[_-]?key)"

# (substring required in the lower-cased text, pattern). The pattern's group, if it has one, is the part to hide.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("bearer", r"(?i:\bbearer)\s{1,8}([\w.~+/=-]{6,}+)"),
    # A plain word after it, as in "basic authentication", is not base64.
    ("basic", r"(?i:\bbasic)\s{1,8}(?![A-Z]?[a-z]++(?![\w+/=]))([A-Za-z0-9+/_-]{6,}+={0,2})"),
    ("sk-", r"(?<![A-Za-z0-9])sk-[\w-]{8,}+"),
    ("gh", r"(?<![A-Za-z0-9])gh[a-z]_\w{8,}+"),
    ("github_pat_", r"(?<![A-Za-z0-9])github_pat_\w{8,}+"),
    ("xox", r"(?<![A-Za-z0-9])xox[a-z]-[\w-]{6,}+"),
    ("akia", r"(?<![A-Za-z0-9])AKIA[0-9A-Z]{12,}+"),
    ("asia", r"(?<![A-Za-z0-9])ASIA[0-9A-Z]{12,}+"),
    ("//", r"//[^\s/:@]*+:([^\s/]+)@"),
    # A token as the user, without a password; names of people and of database roles are shorter.
    ("//", r"//([^\s/:@?#]{16,}+)@"),
    ("eyj", r"(?<![\w-])eyJ[\w-]{4,}+\.[\w-]{4,}+(?:\.[\w-]*+)?"),
    (
        "private key-----",
        r"(?s:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|.*))",
    ),
    # Query strings, connection strings and environment lines: db_password=...
    ("=", rf"(?i:{_KEY_WORD})=[\"']?([^\s\"'&;,]++)"),
    # JSON quoted in a message, possibly escaped.
    (":", rf"(?i:{_KEY_WORD})\\?[\"']\s{{0,8}}:\s{{0,8}}\\?[\"']([^\"'\r\n]++)"),
    # Headers: a quoted value, or everything to the end of the line.
    (
        ":",
        r"(?i:\b(?:authorization|cookie|api-key))[\"']?\s{0,8}:\s{0,8}"
        r"(\"[^\"\r\n]*+\"|'[^'\r\n]*+'|[^\r\n]++)",
    ),
)
_COMPILED = tuple((needle, re.compile(shape)) for needle, shape in _SHAPES)
_NOT_WORD = re.compile(r"[^a-z0-9]")


class Redactor:
    """Removes secrets from text and JSON values. Thread safe; `add` takes effect on the next call.

    `patterns` are additional regular expressions; their match is hidden, or the first group if they have one. They
    come from the operator, and their running time is not bounded.
    """

    __slots__ = ("_forms", "_lock", "_numbers", "_passing", "_passing_forms", "_patterns")

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._forms: tuple[str, ...] = ()
        self._passing: dict[str, int] = {}
        self._passing_forms: tuple[str, ...] = ()
        self._numbers: frozenset[str] = frozenset()
        self._patterns = tuple(_compile_pattern(pattern) for pattern in list_given(patterns, "patterns"))
        self._add_known(list_given(secrets, "secrets"))

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._forms)} known forms>"

    def add(self, secret: str) -> None:
        """Hide this text from now on. Text of less than four characters is ignored, since it would match everywhere."""
        self._add_known([secret])

    def add_passing(self, secret: str) -> None:
        """`add` until `forget` is called as many times; for short-lived secrets, which would otherwise accumulate."""
        self._count_passing(_strip_secret(secret), 1)

    def forget(self, secret: str) -> None:
        """Undo one `add_passing`."""
        self._count_passing(_strip_secret(secret), -1)

    def _count_passing(self, secret: str, step: int) -> None:
        if len(secret) < _MIN_SECRET:
            return
        with self._lock:
            passing = {**self._passing, secret: self._passing.get(secret, 0) + step}
            self._passing = {text: count for text, count in passing.items() if count > 0}
            self._passing_forms = tuple(dict.fromkeys(form for text in self._passing for form in _known_forms(text)))

    def _add_known(self, secrets: Iterable[str]) -> None:
        known = [plain for secret in secrets if len(plain := _strip_secret(secret)) >= _MIN_SECRET]
        forms = [form for secret in known for form in forms_of(secret)]
        with self._lock:
            self._forms = tuple(dict.fromkeys([*self._forms, *forms]))
            self._numbers |= {secret for secret in known if not secret.strip("0123456789.-")}

    def text(self, text: str) -> str:
        """The text with every secret replaced; the same object if it has none."""
        return cut_spans(text, self._spans(text))

    def value(self, value: Any) -> Any:
        """A copy of a JSON value with secrets in its texts redacted, and every value under a secret-looking key."""
        return self._value(value, 0)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return REDACTED if self._numbers and str(value) in self._numbers else value
        if depth >= _DEEPEST:
            return REDACTED
        if isinstance(value, dict):
            return {
                self.text(str(key)): REDACTED if looks_secret(str(key)) else self._value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(item, depth + 1) for item in value]
        # Not JSON: its text may be anything, and computing it may raise.
        return f"[{type(value).__name__}]"

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for form in self._forms + self._passing_forms if self._passing_forms else self._forms:
            if form in text:
                spans += find_occurrences(form, text)
        lowered = text.lower()
        for needle, shape in _COMPILED:
            if needle in lowered:
                spans += [match.span(shape.groups) for match in shape.finditer(text)]
        for shape in self._patterns:
            group = min(shape.groups, 1)
            spans += [match.span(group) for match in shape.finditer(text)]
        return [(start, end) for start, end in spans if end > start]


def _strip_secret(secret: str) -> str:
    if not isinstance(secret, str):
        raise TypeError(f"a secret must be text, not {type(secret).__name__}")
    # A secret read from a file ends with a newline that is not sent in headers.
    return secret.strip()


def cut_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with the spans replaced by `REDACTED`; the same object if there are none. Sorts `spans`."""
    if not spans:
        return text
    spans.sort()
    parts: list[str] = []
    done = 0
    # Merge overlapping spans: hiding one at a time would leave the tail of the other.
    for start, end in spans:
        if start > done or not parts:
            parts += (text[done:start], REDACTED)
        done = max(done, end)
    parts.append(text[done:])
    return "".join(parts)


def find_occurrences(form: str, text: str) -> Iterator[tuple[int, int]]:
    """The spans of `form` in the text; overlapping occurrences of a periodic secret are merged."""
    at = text.find(form)
    while at >= 0:
        start = at
        end = at + len(form)
        at = text.find(form, at + 1)
        while 0 <= at < end:
            end = at + len(form)
            at = text.find(form, at + 1)
        yield start, end


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"redaction pattern {pattern!r} is not a regular expression: {error}") from None


def is_redacted_at(value: Any, pointer: str) -> bool:
    """True if something in a redacted JSON value is hidden at the pointer or below."""
    for name in split_pointer(pointer):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            break
    return _contains_redacted(value)


def _contains_redacted(value: Any) -> bool:
    if isinstance(value, dict):
        return any(REDACTED in key or _contains_redacted(item) for key, item in value.items())
    if isinstance(value, list):
        return any(map(_contains_redacted, value))
    return isinstance(value, str) and REDACTED in value


def looks_secret(key: str) -> bool:
    """True for a key that holds a secret in any data: `db_password`, `API-Key`, ..."""
    # Do not cache keys that are too long to be hand-written.
    return _names_a_secret(key) if len(key) <= 100 else _names_a_secret.__wrapped__(key)


@lru_cache(maxsize=4096)
def _names_a_secret(key: str) -> bool:
    word = _NOT_WORD.sub("", key.lower())
    if not any(secret in word for secret in _SECRET_KEYS):
        return False
    left = _ORDINARY.sub("-", word)
    return any(secret in left for secret in _SECRET_KEYS)


def names_a_secret(variable: str) -> bool:
    """True for an environment variable that holds a secret: as `looks_secret`, and `DB_PASS`, `OPENAI_KEY`, `GH_PAT`.

    Too broad for keys of data, in which `key` and `pass` are ordinary words.
    """
    words = [word for word in split_ascii_identifier(variable) if not word.isdigit()]
    return looks_secret(variable) or not _NAME_WORDS.isdisjoint(words) or words[-1:] in (["key"], ["keys"])


def forms_of(secret: str) -> list[str]:
    """A secret in the forms in which it appears in errors and on wires."""
    from urllib.parse import quote, quote_plus

    data = secret.encode("utf-8", "surrogatepass")
    forms = {secret, repr(secret)[1:-1], ascii(secret)[1:-1]}
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        forms |= {escaped, escaped.replace("/", "\\/")}
    for quoted in (quote(data, safe=""), quote(data, safe="/"), quote_plus(data)):
        forms |= {quoted, re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)}
    for encode in (base64.standard_b64encode, base64.urlsafe_b64encode):
        forms.add(encode(data).decode("ascii"))
        forms |= {_base64_inside(data, offset, encode) for offset in range(3)}
    return sorted(form for form in forms if len(form) >= _MIN_SECRET)


_known_forms = lru_cache(maxsize=1024)(forms_of)


def _base64_inside(data: bytes, offset: int, encode: Any) -> str:
    """The characters that `data` alone determines if it begins `offset` bytes into base64-encoded data."""
    encoded: str = encode(b"\0" * offset + data).decode("ascii")
    return encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


MIN_CREDENTIAL = 8
"""Length from which a value is unlikely to occur by chance."""
_PATTERNS_ONLY = Redactor()
_SCHEMES = frozenset({"basic", "bearer", "digest", "token", "apikey", "api-key", "key"})


class CredentialFinder:
    """Finds credentials of a call that its result repeats. Credentials of less than eight characters are ignored."""

    __slots__ = ("_forms", "_needles", "_numbers")

    def __init__(self, secrets: Iterable[str]) -> None:
        known = dict.fromkeys(plain for secret in secrets if len(plain := secret.strip()) >= MIN_CREDENTIAL)
        self._forms = tuple(dict.fromkeys(form for secret in known for form in forms_of(secret)))
        needles = {json.dumps(form, ensure_ascii=False)[1:-1].encode() for form in self._forms}
        # A needle that contains another one need not be searched for.
        self._needles = tuple(sorted(one for one in needles if not any(o in one for o in needles if o != one)))
        self._numbers = frozenset(secret for secret in known if not secret.strip("0123456789.-"))

    def occur_in(self, text: bytes) -> bool:
        """True if the JSON text may contain a credential. A fast scan, so that other results need not be walked."""
        for needle in self._needles:  # noqa: SIM110 - a generator would cost more than the scan of a short result
            if needle in text:
                return True
        return False

    def hide(self, value: Any) -> Any:
        """A copy of a JSON value with the credentials redacted in texts, keys and numbers."""
        try:
            return self._hide(value) if self._forms else value
        except RecursionError:
            return REDACTED

    def text(self, text: str) -> str:
        """The text with the credentials redacted."""
        return cut_spans(text, [span for form in self._forms if form in text for span in find_occurrences(form, text)])

    def _hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        # Loops, because a comprehension adds a frame per level, and results may be nested deeply.
        if isinstance(value, dict):
            named = {}
            for key, item in value.items():
                named[self.text(key)] = self._hide(item)
            return named
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                items.append(self._hide(item))
            return items
        if type(value) in (int, float) and str(value) in self._numbers:
            return REDACTED
        return value


credential_finder = lru_cache(maxsize=256)(CredentialFinder)
"""Cached `CredentialFinder` for a tuple of secrets."""


def find_credentials(name: str, value: str) -> list[str]:
    """The credentials in a header, variable or parameter of this name: the value and its secret parts.

    Empty if neither name nor value looks like a secret: a tenant or region is ordinary data in results.
    """
    if not names_a_secret(name) and _PATTERNS_ONLY.text(value) == value:
        return []
    scheme, _, rest = value.strip().partition(" ")
    found = [value, rest.strip()] if scheme.lower() in _SCHEMES else [value]
    if scheme.lower() == "basic":
        found += _read_basic(rest)
    return [item for item in found if len(item) >= MIN_CREDENTIAL]


def _read_basic(encoded: str) -> list[str]:
    """The decoded `user:password`, and the password; empty if it is not base64 text."""
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return []
    return [pair, pair.partition(":")[2]]
