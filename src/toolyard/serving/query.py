"""Query parameters: declared with a JSON Schema, validated, and read as strings, integers and fractions.

The cursor of a paged list is a position, authenticated with a digest of what the list depends on (filters, owner), so
that no other list accepts it. `digest_json` computes the digest; idempotent requests use it too, off the event loop.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from toolyard.model.json_schema import is_small
from toolyard.serving.http_fault import HttpFault

T = TypeVar("T")

_QUERY = "toolyard.query"
_MAX_PARAMETERS = 100
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
"""The JSON syntax of numbers."""


class QueryParameter(msgspec.Struct, frozen=True):
    """One query parameter and its JSON Schema."""

    name: str
    schema: dict[str, Any]
    description: str
    repeatable: bool = False

    def check(self, values: list[str]) -> None:
        """Raise `HttpFault` 400 for values the schema does not allow. Numbers are checked when they are read."""
        if len(values) > 1 and not self.repeatable:
            raise _make_invalid_query(f"{self.name} is given {len(values)} times; give it once")
        most = self.schema.get("maxLength")
        if most is not None and any(len(value) > most for value in values):
            raise _make_invalid_query(f"{self.name} is longer than {most} characters")
        if self.schema.get("minLength") and not all(values):
            raise _make_invalid_query(f"{self.name} must not be empty")
        pattern = self.schema.get("pattern")
        if pattern is not None and not all(re.fullmatch(pattern, value) for value in values):
            raise _make_invalid_query(f"{self.name} must match {pattern}")
        allowed = self.schema.get("enum")
        if allowed is not None and not set(values) <= set(allowed):
            raise _make_invalid_query(f"{self.name} must be one of {', '.join(allowed)}")


MAX_PAGE = 1000
CURSOR = QueryParameter("cursor", {"type": "string"}, "`next_cursor` of the previous page.")


def limit_parameter(things: str) -> QueryParameter:
    """Return the parameter that `query_limit` reads; `things` are what the pages consist of."""
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}
    return QueryParameter("limit", schema, f"{things} per page; default 100.")


def check_query(parameters: Sequence[QueryParameter], request: Request) -> None:
    """Raise `HttpFault` 400 for unknown parameters and for values that a parameter does not allow."""
    known = {parameter.name: parameter for parameter in parameters}
    for name, values in read_query(request).items():
        if name not in known:
            listed = f"known here: {', '.join(sorted(known))}" if known else "there are none here"
            raise _make_invalid_query(f"no query parameter is called {name[:100]!r}; {listed}")
        known[name].check(values)


def read_query(request: Request) -> Mapping[str, list[str]]:
    """Return all query parameters with their values, in order; raises `HttpFault` 400 for a malformed query."""
    found: dict[str, list[str]] | None = request.scope.get(_QUERY)
    if found is None:
        found = request.scope[_QUERY] = _parse_query(request.scope["query_string"])
    return found


def query_str(request: Request, name: str) -> str | None:
    """Return the first value of a query parameter; None if it is not given."""
    if not request.scope["query_string"]:
        return None
    values = read_query(request).get(name)
    return None if values is None else values[0]


def query_fraction(request: Request, name: str) -> float | None:
    """Return a query parameter as a number from 0 to 1; None if it is not given."""
    text = query_str(request, name)
    if text is None:
        return None
    if _JSON_NUMBER.fullmatch(text) and 0 <= float(text) <= 1:
        return float(text)
    raise _make_invalid_query(f"{name} must be a number from 0 to 1, such as 0.6")


def query_int(request: Request, name: str, least: int, most: int, default: int) -> int:
    """Return a query parameter as an integer from `least` to `most`."""
    text = query_str(request, name)
    if text is None:
        return default
    number = read_count(text)
    if number is None or not least <= number <= most:
        raise _make_invalid_query(f"{name} must be a whole number from {least} to {most}")
    return number


def query_limit(request: Request, default: int = 100) -> int:
    """Return the number of items on a page."""
    return query_int(request, "limit", 1, MAX_PAGE, default)


def read_count(text: str) -> int | None:
    """Parse a non-negative decimal integer; None if the text is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def parse_pairs(text: bytes, most: int) -> list[tuple[str, str]] | None:
    """Parse `application/x-www-form-urlencoded` pairs; None if they are malformed, or more than `most`."""
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError:
        return None


def _parse_query(text: bytes) -> dict[str, list[str]]:
    pairs = parse_pairs(text, _MAX_PARAMETERS)
    if pairs is None:
        raise _make_invalid_query(f"the query must be percent-encoded UTF-8 with at most {_MAX_PARAMETERS} parameters")
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _make_invalid_query(message: str) -> HttpFault:
    return HttpFault(400, "request.invalid_query", message)


DIGEST_BYTES = 12
"""Length of the authentication code at the end of a cursor."""
Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a cursor, limited to what every store can hold."""

_canonical = msgspec.json.Encoder(order="sorted").encode


def digest_json(*parts: Any) -> bytes:
    """Return a digest that is equal for equal JSON, whatever the order of keys."""
    return hashlib.sha256(_canonical(parts)).digest()


async def digest_off_loop(parts: Sequence[Any]) -> bytes:
    """Return `digest_json(*parts)`. Of many values a thread computes it, in steps between which the loop can go on."""
    if all(map(is_small, parts)):
        return digest_json(*parts)
    ordered = await asyncio.to_thread(_sort_keys, list(parts))
    return await asyncio.to_thread(lambda: hashlib.sha256(msgspec.json.encode(ordered)).digest())


_RUN = 4096
"""Keys sorted at once. What is sorted in runs is sorted fast: one sort of 90,000 keys would block all threads."""


def _sort_keys(value: Any) -> Any:
    if type(value) is dict:
        keys = list(value)
        runs = (sorted(keys[at : at + _RUN]) for at in range(0, len(keys), _RUN))
        return {key: _sort_keys(value[key]) for key in sorted(chain.from_iterable(runs))}
    return [_sort_keys(item) for item in value] if type(value) is list else value


def write_cursor(digest: bytes, *place: int | str) -> str:
    """Return the cursor for a position in the list that `digest` identifies."""
    return base64.urlsafe_b64encode(_seal_place(digest, _canonical(place))).decode().rstrip("=")


def read_cursor(digest: bytes, cursor: str, kind: type[T]) -> T | None:
    """Return the position, as a type such as `tuple[Position]`; None if the cursor is invalid or from another list."""
    try:
        sealed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        place = sealed[:-DIGEST_BYTES]
        # The type is checked, since the digest is no secret: a client that knows the filters can forge any position.
        return msgspec.json.decode(place, type=kind) if sealed == _seal_place(digest, place) else None
    except (ValueError, msgspec.DecodeError):
        return None


def query_place(request: Request, digest: bytes, kind: type[T]) -> T | None:
    """Return the position that the `cursor` parameter has in the list; None if it is not given."""
    cursor = query_str(request, "cursor")
    place = None if cursor is None else read_cursor(digest, cursor, kind)
    if cursor is not None and place is None:
        raise make_invalid_cursor()
    return place


def make_invalid_cursor() -> HttpFault:
    """Return the 400 for a cursor that is malformed or belongs to another list or to other filters."""
    return _make_invalid_query(
        "cursor does not belong to this list: use next_cursor of the previous page, with the same filters"
    )


def _seal_place(digest: bytes, place: bytes) -> bytes:
    return place + hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
