"""The file of a cassette: JSON lines, or a list in YAML; read whole, and written one recording at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from toolyard.model.errors import ConfigError, MalformedSource
from toolyard.parsing import parse_json, parse_yaml, read_bytes
from toolyard.parsing.json_text import iter_json_lines

JSONL = (".jsonl", ".ndjson")
YAML = (".yaml", ".yml")
_MAX_BYTES = 1024 * 1024 * 1024
_MAX_DEPTH = 600
_OWN_END = re.compile(rb"\n  duration: [0-9][-+.e0-9]*\n\Z")
_OWN_FIRST, _OWN_SECOND = b"- name: ", b"  when: "
_LONGEST_END = 64
_LARGE = 20_000
_WIDEST = 2**31 - 1
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:::?[A-Za-z_][A-Za-z0-9_]*)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})


def check_suffix(path: Path) -> None:
    """Refuse a file whose name does not say how it is written."""
    if path.suffix.lower() not in (*JSONL, *YAML):
        raise ConfigError(f"cassette {path}: its name must end in .jsonl or .yaml, which say how it is written")


def read_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Each recording as plain data, and where it stands."""
    data = read_bytes(path, max_bytes=_MAX_BYTES)
    # What its writer could not finish before it ended is left out.
    data = data[: _find_joint(lambda start, end: data[start:end], len(data), path)[0]]
    if path.suffix.lower() in YAML:
        items = parse_yaml(data, what=str(path), max_depth=_MAX_DEPTH)
        if items is not None and not isinstance(items, list):
            raise MalformedSource("a cassette is a list of recordings", where=str(path))
        for number, item in enumerate(items or []):
            yield f"{path}[{number}]", item
        return
    for number, line in iter_json_lines(data):
        where = f"{path}:{number}"
        yield where, parse_json(line, what=where, max_depth=_MAX_DEPTH)


def append_item(path: Path, item: dict[str, Any]) -> None:
    """Add one recording. Several processes may do so at once."""
    text = _dump_yaml(item) if path.suffix.lower() in YAML else msgspec.json.encode(item) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _lock_file(descriptor)
        size = os.fstat(descriptor).st_size
        whole, between = _find_joint(lambda start, end: os.pread(descriptor, end - start, start), size, path)
        if between is None:
            raise OSError("it is not a list with each recording behind a '-' at the start of a line")
        if whole < size:
            os.ftruncate(descriptor, whole)
        text = between + text
        written = os.write(descriptor, text)
        if written < len(text):
            os.ftruncate(descriptor, whole)
            raise OSError(f"only {written} of {len(text)} bytes fitted into {path}")
    finally:
        os.close(descriptor)


_Read = Callable[[int, int], bytes]


def _find_joint(read: _Read, size: int, path: Path) -> tuple[int, bytes | None]:
    """How much of a file is whole, and what stands between that and one more; None if no more can be added to it.

    People who edit a file may leave out its last line feed; what ends without one is not for that reason half.
    """
    if path.suffix.lower() in YAML:
        return _yaml_joint(read, size, path)
    start = _behind_last(b"\n", read, size)
    rest = read(start, size)
    if not rest.strip():
        return size, b""
    try:
        return (
            (size, b"\n") if isinstance(parse_json(rest, what=str(path), max_depth=_MAX_DEPTH), dict) else (start, b"")
        )
    except MalformedSource:
        return start, b""


def _yaml_joint(read: _Read, size: int, path: Path) -> tuple[int, bytes | None]:
    end = read(max(size - _LONGEST_END, 0), size)
    if not size or _OWN_END.search(end):
        return size, b""
    start = _behind_last(b"\n-", read, size)
    start -= 1 if start else 0
    rest = read(start, size)
    feed = b"" if rest.endswith(b"\n") else b"\n"
    before = _parse_items(rest, path)
    if _is_own(rest) and not (before and isinstance(before[-1], dict) and before[-1].get("duration") is not None):
        return start, b""
    after = _parse_items(rest + feed + b"- 0\n", path)
    return size, feed if before is not None and after == [*before, 0] else None


def _parse_items(text: bytes, path: Path) -> list[Any] | None:
    try:
        items = parse_yaml(text, what=str(path), max_depth=_MAX_DEPTH)
    except MalformedSource:
        return None
    return items if isinstance(items, list) else [] if items is None else None


def _is_own(text: bytes) -> bool:
    """Whether it begins as what is written here does, which says when it was and, last of all, how long it took."""
    first, _, rest = text.partition(b"\n")
    begun = len(rest) < len(_OWN_SECOND) and _OWN_SECOND.startswith(rest)
    return first[: len(_OWN_FIRST)] == _OWN_FIRST[: len(first)] and (begun or rest.startswith(_OWN_SECOND))


def _behind_last(mark: bytes, read: _Read, size: int) -> int:
    """The place behind the last mark; 0 if there is none."""
    end = size
    while end > 0:
        start = max(end - 65536, 0)
        at = read(start, min(end + len(mark) - 1, size)).rfind(mark)
        if at >= 0:
            return start + at + len(mark)
        end = start
    return 0


def _lock_file(descriptor: int) -> None:
    # Closing the file lets go of it. Windows has no such lock; there, one process a file.
    if os.name == "posix":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _dump_yaml(item: dict[str, Any]) -> bytes:
    import yaml

    # Of what was cut off, the beginning is there and the end is not: so much is told by these two.
    parts = {"name": item["name"], "when": item["when"], **item}
    parts["duration"] = parts.pop("duration")
    large = yaml.__with_libyaml__ and len(msgspec.json.encode(item)) > _LARGE
    # The fast one escapes more than it need.
    dumper: Any = type("Dumper", (yaml.CSafeDumper if large else yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, _represent_text)
    written = yaml.dump([parts], Dumper=dumper, sort_keys=False, allow_unicode=True, width=_WIDEST)
    return str(written).encode()


def _represent_text(dumper: Any, value: str) -> Any:
    """Quotes every text that any reader could take for something else."""
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')
