"""YAML by yaml-rs, for the texts on which it agrees with the exact parser."""

from __future__ import annotations

import gc
import re
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any, Final

import jsonschema_rs
import msgspec
import yaml_rs

from toolyard.parsing.scalars import LARGEST_INT
from toolyard.parsing.yaml_guard import doubts, may_try

VETTED = frozenset({"0.1.6"})
"""Versions of yaml-rs whose source the guard was written for; any other one is not used."""

STACK = 64 * 1024 * 1024
"""Bytes of stack for yaml-rs, which needs about 750 for a level, so for `DEEPEST` an eighth of this."""

CHUNK = 512
"""Containers looked at together; few enough for the processor's cache, many enough for the C calls to pay."""

UNDECIDED: Final = object()
"""Not a verdict: the exact parser must decide."""

_NO_ALIASES = yaml_rs.AliasLimits(0, 0, 0)
_MARKER = re.compile(rb"\n(?=---|\.\.\.)")
_ODD_KEY = re.compile(rb"(?<![^\s,\[{])(?:[-+]?0[0-9xXoObB_]|\+|-0|[-+]?[0-9]*_)[0-9a-fA-F_]*+\s*+[:,}]")
_EXPLICIT_KEY = re.compile(rb"\?(?<![^ \n]\?)(?<![^ \n\-?:] \?)(?=[ \n])")
_ESCAPED_MARK = re.compile(rb"\\(?=[xuU]0*(?:21|26|5[bB]|5[fF]|7[bB]))")
_EMPTY = {b"[": b"[]", b"{": b"{}"}
_DIGITS = re.compile(rb"[0-9a-fA-F_xo]+")
_STEP = 1024
_VALIDATOR_DEPTH = 250
_starting = threading.Lock()


def load_fast(text: str, source: bytes, max_depth: int) -> Any:
    """What the exact parser would give, or `UNDECIDED`; `source` is `text` in UTF-8."""
    if yaml_rs.__version__ not in VETTED or not may_try(source):
        return UNDECIDED
    parser = _Parser(text, source, max_depth)
    if not parser.begin():
        return UNDECIDED
    # It reads without the interpreter's lock, so this costs no time where there is a second processor.
    marks = doubts(source)
    parser.join()
    value = parser.value
    if value is UNDECIDED or marks is None:
        return UNDECIDED
    # Several documents come back as a list of them.
    if isinstance(value, list) and _MARKER.search(source, 1):
        return UNDECIDED
    return value if not marks or _all_text(marks, source, value) else UNDECIDED


class _Parser(threading.Thread):
    """A thread of its own, because the caller's stack may be small, and deep keys are hashed and compared on it too."""

    def __init__(self, text: str, source: bytes, max_depth: int) -> None:
        super().__init__(name="toolyard-yaml", daemon=True)
        self.text = text
        self.source = source
        self.max_depth = max_depth
        self.value: Any = UNDECIDED

    def begin(self) -> bool:
        """Start with a large stack; False if the system has no thread to give."""
        with _starting:
            before = threading.stack_size(STACK)
            try:
                self.start()
            except RuntimeError:
                return False
            finally:
                threading.stack_size(before)
        return True

    def run(self) -> None:
        """Leave the document in `value` if it is plain data."""
        # yaml-rs raises ValueErrors; the others come from keys that cannot be keys. The exact parser will explain.
        with suppress(ValueError, TypeError, RecursionError):
            value = yaml_rs.loads(
                self.text,
                parse_datetime=False,
                alias_limits=_NO_ALIASES,
                duplicate_key_policy=yaml_rs.DuplicateKeyPolicy.Error,
            )
            if isinstance(value, dict | list) and (
                _is_plain(value, self.source, self.max_depth) or _normalise(value, self.source, self.max_depth)
            ):
                self.value = value


def _is_plain(value: Any, source: bytes, max_depth: int) -> bool:
    """True for what `_normalise` would accept unchanged, judged in compiled code; False decides nothing."""
    # The validator takes an integer that Python will not write out for a valid one, and reads no deeper than it
    # likes itself, so a schema for more levels would only cost the time to compile it.
    if max_depth > _VALIDATOR_DEPTH or _has_long_number(source):
        return False
    try:
        return _plain_data(max_depth).is_valid(value)
    except ValueError:
        # What the validator cannot read is no JSON: a key that is a number, for one.
        return False


def _has_long_number(source: bytes) -> bool:
    """Digits over a whole step: an integer of more than 4,300 decimal digits covers one in any base."""
    digits = _DIGITS.fullmatch
    return any(
        digits(source, at, at + 16) and digits(source, at, at + _STEP) for at in range(0, len(source) - _STEP, _STEP)
    )


@cache
def _plain_data(max_depth: int) -> jsonschema_rs.Validator:
    """A schema of JSON values with finite numbers and no merge key, with a definition for each level they may nest."""
    largest = sys.float_info.max
    scalars = ["string", "number", "boolean", "null"]
    scalar: dict[str, Any] = {"type": scalars, "minimum": -largest, "maximum": largest}
    levels: dict[str, Any] = {f"level{max_depth}": scalar}
    for depth in range(max_depth):
        below = {"$ref": f"#/$defs/level{depth + 1}"}
        kinds = ["object", "array", *scalars]
        levels[f"level{depth}"] = {
            **scalar,
            "type": kinds,
            "properties": {"<<": False},
            "additionalProperties": below,
            "items": below,
        }
    return jsonschema_rs.validator_for({"$ref": "#/$defs/level0", "$defs": levels}, offline=True)


def _normalise(value: Any, source: bytes, max_depth: int) -> bool:
    """Make text of integer keys; False if something in the value is not plain data, or not for certain as written."""
    pending = [([value], 1)]
    had_int_keys = False
    while pending:
        level, depth = pending.pop()
        mappings = [container for container in level if type(container) is dict]
        keys = set().union(*mappings)
        if "<<" in keys:
            return False
        if any(type(key) is not str for key in keys):
            if not all(map(_spell_keys, mappings)):
                return False
            had_int_keys = True
        others = [child for child in gc.get_referents(*level) if type(child) is not str]
        if not all(_fits(number) for number in others if type(number) is float or type(number) is int):
            return False
        inner = [child for child in others if type(child) is dict or type(child) is list]
        if inner and depth == max_depth:
            return False
        pending += [(inner[at : at + CHUNK], depth + 1) for at in range(0, len(inner), CHUNK)]
    return not (had_int_keys and (_ODD_KEY.search(source) or _EXPLICIT_KEY.search(source)))


def _spell_keys(mapping: dict[Any, Any]) -> bool:
    """Replace integer keys by their digits, in place; False if there are others, or if two keys become the same."""
    kinds = {type(key) for key in mapping}
    if kinds <= {str}:
        return True
    if not kinds <= {str, int}:
        return False
    pairs = [(str(key), value) for key, value in mapping.items()]
    mapping.clear()
    mapping.update(pairs)
    return len(mapping) == len(pairs)


def _fits(number: float | int) -> bool:
    if -sys.float_info.max <= number <= sys.float_info.max:
        return True
    return type(number) is int and -LARGEST_INT < number < LARGEST_INT


def _all_text(marks: list[bytes], source: bytes, value: Any) -> bool:
    """Whether these characters of the source, except empty brackets, all stand in keys and strings of the value.

    Every character of a source but blanks and line breaks is part of a string or key, or of a number, or of the
    syntax, or of a comment. So if as many come out as went in, none was syntax.
    """
    if _ESCAPED_MARK.search(source):
        return False
    encoded = msgspec.json.encode(value)
    if any(source.count(mark) != encoded.count(mark) for mark in marks if mark not in _EMPTY):
        return False
    structure = _open_containers(value)
    return all(
        _unpaired(source, mark) == _unpaired(encoded, mark) - structure[mark] for mark in marks if mark in _EMPTY
    )


def _unpaired(data: bytes, bracket: bytes) -> int:
    return data.count(bracket) - data.count(_EMPTY[bracket])


def _open_containers(value: Any) -> dict[bytes, int]:
    """How many lists and mappings are not empty."""
    lists = mappings = 0
    level = [value]
    while level:
        level = [child for child in level if child and (type(child) is dict or type(child) is list)]
        found = sum(type(child) is list for child in level)
        lists += found
        mappings += len(level) - found
        level = gc.get_referents(*level)
    return {b"[": lists, b"{": mappings}
