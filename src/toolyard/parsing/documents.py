"""Read files within limits, replace them atomically, and parse JSON and YAML strictly to plain data.

JSON is the part of RFC 8259 that all readers agree on, decoded by msgspec. The reason for a rejection is only looked
for afterwards, so that step may be slow. YAML is read event by event (`yaml_events`). `expand` replaces `${VAR}` in
configs, and in paths and addresses passed from code, by environment variables.

Parsing a large document pauses the cyclic garbage collector (`paused_gc`): a parser allocates hundreds of thousands of
containers that are all reachable, and the collections this triggers cost a third to a half of the parse for nothing.
"""

from __future__ import annotations

import fcntl
import gc
import io
import json
import math
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolyard.constants import MAX_DIGITS
from toolyard.model.errors import ConfigError, MalformedSource, SourceUnavailable

MAX_BYTES = 64 * 1024 * 1024
"""Default size limit of a document."""

_CHUNK = 1 << 20
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file.

    Raises `SourceUnavailable` if it cannot be opened or read, `MalformedSource` if it is not a regular file or is
    larger than `max_bytes`. Never blocks: pipes and devices are rejected before anything is read from them.
    """
    where = os.fspath(path)
    if not where or "\0" in where:
        raise SourceUnavailable(f"{where!r} is no path; name a file")
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    try:
        descriptor = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _read_all(descriptor, max_bytes, where)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{where}: no such file; {_explain_missing(where)}") from error
    except OSError as error:
        raise SourceUnavailable(f"{where}: cannot be read: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, with its line ends unchanged."""
    data = read_bytes(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise undecodable(data, error, str(path)) from error


def _read_all(descriptor: int, max_bytes: int, where: str) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise MalformedSource(f"this is {name_file_kind(found.st_mode)}; name a file", where=where)
    _require_size(found.st_size, max_bytes, where)
    data = read_at_most(descriptor, max_bytes, expected=found.st_size)
    _require_size(len(data), max_bytes, where)
    return data


def read_at_most(descriptor: int, most: int, *, expected: int = 0) -> bytes:
    """Read to the end of the file, or until more than `most` bytes are read.

    `expected` is only a hint: a file may grow while it is read, and files under /proc report a size of 0.
    """
    parts: list[bytes] = []
    total = 0
    while total <= most and (part := os.read(descriptor, max(expected - total + 1, _CHUNK))):
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def name_file_kind(mode: int) -> str:
    """A description of a file that is not a regular file, from its `st_mode`."""
    return next((name for test, name in _KINDS if test(mode)), "no regular file")


def _require_size(size: int, max_bytes: int, where: str) -> None:
    if size > max_bytes:
        raise MalformedSource(f"larger than the limit of {max_bytes:,} bytes; split it or raise max_bytes", where=where)


def _explain_missing(where: str) -> str:
    """The first part of the path that does not exist, as a hint to a wrong working directory."""
    path = Path(where).absolute()
    if path.is_symlink():
        return f"the link points to {path.readlink()}, which does not exist"
    parent = next(folder for folder in path.parents if folder.is_dir())
    return f"{parent} has no {path.relative_to(parent).parts[0]!r}"


_MANY = 50_000
"""Number of containers that take the garbage collector milliseconds to traverse."""


class _Pauses:
    """Process-wide count of open pauses, and whether the last one to end enables the collector again."""

    lock = threading.Lock()
    open = 0
    resume = False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable automatic garbage collection in all threads for the duration of the block.

    Blocks may nest and overlap across threads: the last to end restores the state that the first one found, so
    the collector stays off in a process that had disabled it.
    """
    with _Pauses.lock:
        if _Pauses.open == 0:
            _Pauses.resume = gc.isenabled()
            gc.disable()
        _Pauses.open += 1
    try:
        yield
    finally:
        with _Pauses.lock:
            _Pauses.open -= 1
            if _Pauses.open == 0 and _Pauses.resume:
                if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                    # Move the new objects to the oldest generation at once; otherwise they are traversed twice.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between reading a file and replacing it; `OSError` if it cannot be taken."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Lock a file beside it, since each change replaces the file itself.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    number = os.open(path.with_name(f".{path.name}.lock"), flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def replace_file(path: Path, data: bytes, *, keep_mode: bool = False) -> None:
    """Replace the content of a file atomically and durably. The new file is private to the user.

    With `keep_mode`, it keeps the permissions of the existing file.
    """
    try:
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)  # instead of the temporary file, which the user does not know
        raise
    try:
        with os.fdopen(number, "wb") as file:
            if keep_mode and path.exists():
                os.fchmod(number, stat.S_IMODE(path.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


_CONTAINERS = frozenset({dict, list})


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether a document has more than `limit` levels of dicts and lists; a scalar has none.

    Descends level by level through `gc.get_referents`: two C calls a level instead of one Python step a value.
    CPython may leave a dict without containers untracked; that loses no container with further levels below it, so
    only the last step has to look at types.
    """
    if limit < 1:
        return type(value) in _CONTAINERS
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit - 1):
        level = [*filter(gc.is_tracked, gc.get_referents(*level))]
        if not level:
            return False
    return any(type(child) in _CONTAINERS for child in gc.get_referents(*level))


def undecodable(data: bytes, error: UnicodeDecodeError, what: str) -> MalformedSource:
    """The error for bytes that are not UTF-8."""
    before = data[: error.start].decode().removeprefix("\ufeff")
    message = f"byte 0x{data[error.start]:02x} is not valid UTF-8; save the text as UTF-8"
    return MalformedSource.at_character(before, len(before), message, what)


def encode_utf8(text: str, what: str) -> bytes:
    """`text` in UTF-8; `MalformedSource` for lone surrogates, which UTF-8 cannot encode."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"U+{code:04X} is half of a surrogate pair, not a character; decode the text with its right encoding"
        raise MalformedSource.at_character(text, error.start, message, what) from error


LARGE = 64 * 1024
"""Size in bytes from which pausing the garbage collector is worth taking its lock."""


BOM = b"\xef\xbb\xbf"
_BACKSLASH = 0x5C  # `in` on bytes is ten times faster for an int than for bytes.
_ESCAPED_QUOTE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0022")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_json(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None.

    Integers are exact up to 4,300 digits. A leading byte order mark is ignored. Raises `MalformedSource`, whose `where`
    is `{what}:{line}:{column}`, for everything that RFC 8259 forbids, and for repeated keys, numbers too large for a
    float, lone surrogates, and nesting deeper than `max_depth` or the interpreter's recursion limit.
    """
    source = data if isinstance(data, bytes) else encode_utf8(data, what)
    size = len(source)
    cause: Exception | None = None
    try:
        if size < LARGE:
            value = _decode(source)
        else:
            with paused_gc():
                value = _decode(source)
        # Each level takes two bytes of brackets, so a short text needs no measuring.
        if size <= 2 * max_depth or not nests_deeper(value, max_depth):
            encoded = _encode(value)
            # The decoder silently keeps the last of two equal keys, which loses at least the two quotes of one. Nothing
            # else changes the number of quotes: one inside a string is `\"` in source and output alike, unless the
            # source escapes it as a code point.
            if encoded == source or encoded.count(b'"') == source.count(b'"') + (
                len(_ESCAPED_QUOTE.findall(source)) if _BACKSLASH in source and b"\\u0022" in source else 0
            ):
                return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if source.startswith(BOM):
            return parse_json(source[len(BOM) :], what=what, max_depth=max_depth)
        # The traceback refers to this frame, which refers to the error: that cycle would keep the source alive.
        cause = error.with_traceback(None)

    raise json_fault(source, what, max_depth) from cause


def iter_json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The 1-based number and the stripped text of each line of a JSONL document that is not blank.

    Only line feeds separate lines: the other characters that `splitlines` breaks at may occur in JSON strings.
    """
    for number, line in enumerate(io.BytesIO(data.removeprefix(BOM)), 1):
        stripped = line.strip(b" \t\r\n")
        if stripped:
            yield number, stripped


_TOKEN = re.compile(
    r"""
      "(?P<string> (?: [^"\\]++ | \\. )*+ )" (?P<colon> [ \t\n\r]*+ : )?
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<constant> NaN | -?Infinity )
    | (?P<number> -? [0-9]++ (?: \.[0-9]++ )? (?: [eE][+-]?[0-9]++ )? )
    """,
    re.VERBOSE | re.DOTALL,
)
_SURROGATE = re.compile(r"\\(?:u(?P<code>[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)

_REMEDIES = {
    "Expecting value": "expected a value here",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes here",
    "Expecting ',' delimiter": "expected ',' or the closing bracket here",
    "Expecting ':' delimiter": "expected ':' after the key",
    "Extra data": "the value ends before this; a JSON text holds one value (one a line is JSONL)",
    "Illegal trailing comma before end of object": "a comma before the closing bracket must go",
    "Illegal trailing comma before end of array": "a comma before the closing bracket must go",
    "Unterminated string starting at": "the string that starts here never ends; add its closing quote",
    "Invalid control character at": "control characters in a string must be escaped, such as \\n or \\t",
    "Invalid \\escape": 'a backslash must be doubled, or begin one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX',
    "Invalid \\uXXXX escape": "\\u needs four hexadecimal digits",
}
_HINTS = (
    (re.compile(r"'"), "strings take double quotes"),
    (re.compile(r"//|/\*|#"), "JSON has no comments; remove it"),
    (re.compile(r"(?:True|False|None)\b"), "write true, false or null"),
    (re.compile(r"[\]}]"), "a comma before the closing bracket must go, and a value left out must be added"),
    (re.compile(r"[+.]|0[0-9]"), "a number begins with one digit or a minus sign, and only 0 itself with a zero"),
)


def json_fault(data: bytes, what: str, max_depth: int) -> MalformedSource:
    """The error for a text that `parse_json` rejected, naming the first fault found."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return undecodable(data, error, what)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return MalformedSource.at_character(text, error.pos, _explain_syntax(text, error), what)
    except (RecursionError, ValueError):
        pass  # Too deep, or an integer too long, for the standard library; both are found below.
    for index, message in _find_offences(text, max_depth):
        return MalformedSource.at_character(text, index, message, what)
    return MalformedSource("is not JSON, or nests deeper than the interpreter's recursion limit", where=what)


def _explain_syntax(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip(" \t\n\r"):
        return "the text is empty; expected a JSON value"
    if not text[error.pos :].strip(" \t\n\r") and not error.msg.startswith("Unterminated"):
        return "the text ends before its value does; is it cut off?"
    message = _REMEDIES.get(error.msg, error.msg)
    for pattern, hint in _HINTS:
        if error.msg.startswith("Expecting") and pattern.match(text, error.pos):
            return f"{message}; {hint}"
    return message


def _find_offences(text: str, max_depth: int) -> Iterator[tuple[int, str]]:
    """Offset and description of each fault in text with valid JSON syntax, in order."""
    keys: list[dict[str, int]] = []
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            keys.append({})
            if len(keys) > max_depth:
                yield token.start(), f"nested deeper than {max_depth} levels; flatten the data"
        elif kind == "close":
            del keys[-1:]
        elif kind == "constant":
            yield token.start(), f"{token[0]} is not a JSON number; use null or a string"
        elif kind == "number":
            yield from _explain_number(token[0], token.start())
        else:
            yield from _lone_surrogates(token["string"], token.start() + 1)
            if kind == "colon" and keys:
                yield from _find_repeated_key(text, token["string"], token.start(), keys[-1])


def _find_repeated_key(text: str, raw: str, index: int, seen: dict[str, int]) -> Iterator[tuple[int, str]]:
    key = json.loads(f'"{raw}"') if "\\" in raw else raw
    if key in seen:
        line = text.count("\n", 0, seen[key]) + 1
        yield index, f"key {key!r} appears twice in one object, first on line {line}; remove or rename one"
    seen[key] = index


def _explain_number(literal: str, index: int) -> Iterator[tuple[int, str]]:
    if literal.lstrip("-").isdigit():
        if len(literal) > MAX_DIGITS:
            yield index, f"an integer of {len(literal):,} characters, more than {MAX_DIGITS:,}; write it as a string"
    elif math.isinf(float(literal)):
        yield index, f"{literal[:40]} is too large for a float; write it as a string"


def _lone_surrogates(raw: str, start: int) -> Iterator[tuple[int, str]]:
    """The first escape that is only half of a surrogate pair."""
    high: re.Match[str] | None = None
    for escape in _SURROGATE.finditer(raw):
        code = escape["code"]
        is_low = code is not None and code[1] in "cdefCDEF"
        if high is not None and not (is_low and escape.start() == high.end()):
            break
        if is_low and high is None:
            high = escape
            break
        high = escape if code is not None and not is_low else None
    if high is not None:
        yield start + high.start(), f"{high[0]} is half of a surrogate pair, not a character; write both halves"


def parse_yaml(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None; an empty one is None.

    Scalars follow the core schema of YAML 1.2: `on` and `2024-01-02` are text, `010` is ten. Keys are text as
    written, so `200:` becomes "200". Aliases are copied and `<<` is merged, within a budget that no legitimate
    document reaches. A missing line feed at the end is added.

    Raises `MalformedSource`, whose `where` is `{what}:{line}:{column}`, for anything that is not YAML, for what JSON
    cannot express (`.nan`, keys that are collections), and for non-standard tags, repeated keys, a second document and
    nesting deeper than `max_depth`.
    """
    from toolyard.parsing.yaml_events import build_document

    source = normalise_lines(data if isinstance(data, bytes) else encode_utf8(data, what))
    try:
        text = source.decode()
    except UnicodeDecodeError as error:
        raise undecodable(source, error, what) from error
    with paused_gc() if len(source) >= LARGE else nullcontext():
        return build_document(text, what, max_depth)


def normalise_lines(source: bytes) -> bytes:
    """The text without a byte order mark and with every line ended by a line feed, as the YAML scanners expect."""
    source = source.removeprefix(BOM)
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return source if source.endswith(b"\n") else source + b"\n"


VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`${NAME}`, `${NAME:-default}`, and `${env:NAME}`, which other programs use."""
Found = Callable[[str, str, bool], None]


def expand(
    value: Any,
    *,
    where: str = "config",
    env: Mapping[str, str] | None = None,
    found: Found | None = None,
    whole: Callable[[str], Any] = str,
) -> Any:
    """The value with variables replaced in every text inside; `ConfigError` for an unset one without default.

    `found` is called with the name of each variable, its value, and whether that is the default. `whole` converts
    a text that consisted of one variable only.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        text = VARIABLE.sub(lambda match: _replace_variable(match, where, env, found), value)
        return whole(text) if VARIABLE.fullmatch(value) else text
    options: dict[str, Any] = {"env": env, "found": found, "whole": whole}
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", **options) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", **options) for index, item in enumerate(value)]
    return value


Place = TypeVar("Place", bound=str | Path)


def expand_place(place: Place, option: str) -> Place:
    """A path or address passed from code, with variables replaced as in a config."""
    text = str(place)
    return type(place)(expand(text, where=option)) if "${" in text else place


def _replace_variable(match: re.Match[str], where: str, env: Mapping[str, str], found: Found | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value, name not in env)
    return value
