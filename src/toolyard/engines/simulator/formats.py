"""Text by the `format` of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from toolyard.engines.simulator.byte_tables import SIZE, ByteTable
from toolyard.engines.simulator.draw import Draw

Text = Callable[[Draw], str]

_DOMAINS = ("example.com", "example.org", "example.net")
_PEOPLE = ("ada", "grace", "alan", "katherine", "edsger", "barbara", "donald", "margaret", "linus", "radia")
_PATHS = ("items", "reports", "photos", "orders", "docs", "events", "pages")
_BASE64 = ("SGVsbG8=", "d29ybGQ=", "dG9vbHlhcmQ=", "c2FtcGxl", "ZGF0YQ==", "dmFsdWU=")
_DAYS = [f"{2023 + at // 336}-{at // 28 % 12 + 1:02d}-{at % 28 + 1:02d}" for at in range(4 * 12 * 28)]
_MOMENTS = [f"{_DAYS[at * 7 % 1344]}T{at % 24:02d}:{at * 11 % 60:02d}:{at * 17 % 60:02d}Z" for at in range(4096)]
_ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Europe/Paris", "Australia/Sydney", "UTC")
_CURRENCIES = ("EUR", "USD", "GBP", "JPY", "CHF", "SEK")
_COUNTRIES = ("DE", "US", "FR", "JP", "GB", "SE", "ES", "IT")


date = ByteTable(_DAYS)
"""A day of the last years."""
date_time = ByteTable(_MOMENTS)
"""A moment, in UTC."""


def time_of_day(draw: Draw) -> str:
    """Hours, minutes and seconds, in UTC."""
    number = draw.below(86_400)
    return f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"


def uuid(draw: Draw) -> str:
    """A version 4 UUID."""
    text = draw.hexadecimal(32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


def email(draw: Draw) -> str:
    """An address at a domain that belongs to nobody."""
    return f"{_PEOPLE[draw.below(len(_PEOPLE))]}{draw.below(100)}@{_DOMAINS[draw.below(3)]}"


def uri(draw: Draw) -> str:
    """An address at a domain that belongs to nobody."""
    return f"https://{_DOMAINS[draw.below(3)]}/{_PATHS[draw.below(len(_PATHS))]}/{draw.below(100_000)}"


def hostname(draw: Draw) -> str:
    """A host that does not exist."""
    return f"{_PEOPLE[draw.below(len(_PEOPLE))]}{draw.below(100)}.{_DOMAINS[draw.below(3)]}"


def ipv4(draw: Draw) -> str:
    """An address set aside for documentation."""
    return f"{('192.0.2', '198.51.100', '203.0.113')[draw.below(3)]}.{draw.between(1, 254)}"


def ipv6(draw: Draw) -> str:
    """An address set aside for documentation."""
    return f"2001:db8::{draw.below(65_536):x}:{draw.below(65_536):x}"


def duration(draw: Draw) -> str:
    """Some minutes."""
    return f"PT{draw.between(1, 59)}M"


def phone(draw: Draw) -> str:
    """A number of the kind that is never given to anybody."""
    return f"+1555{draw.below(10_000_000):07d}"


def path(draw: Draw) -> str:
    """An address without a host."""
    return f"/{_PATHS[draw.below(len(_PATHS))]}/{draw.below(100_000)}"


def _one_of(words: tuple[str, ...]) -> Text:
    return ByteTable(words)


def digits(draw: Draw) -> str:
    """A whole number as text."""
    return str(draw.between(1, 9_999_999))


def decimal_price(draw: Draw) -> str:
    """An amount of money as text."""
    return f"{draw.between(1, 500)}.{draw.below(100):02d}"


def urn(draw: Draw) -> str:
    """A name with a UUID in it."""
    return f"urn:uuid:{uuid(draw)}"


def digest(draw: Draw) -> str:
    """A hash, and how it was made."""
    return f"sha256:{draw.hexadecimal(64)}"


def password(draw: Draw) -> str:
    """Letters and digits that are not mistaken for one another."""
    return draw.letters("abcdefghjkmnpqrstuvwxyz23456789", 12)


def hexadecimal_12(draw: Draw) -> str:
    """A short id."""
    return draw.hexadecimal(12)


def hexadecimal_32(draw: Draw) -> str:
    """A long id."""
    return draw.hexadecimal(32)


def hexadecimal_40(draw: Draw) -> str:
    """A hash."""
    return draw.hexadecimal(40)


_ALL_DIFFERENT = frozenset((uuid, urn, digest, password, digits, phone, hexadecimal_12, hexadecimal_32, hexadecimal_40))

FORMATS: Mapping[str, Text] = {
    "date": date,
    "time": time_of_day,
    "date-time": date_time,
    "datetime": date_time,
    "date_time": date_time,
    "google-datetime": date_time,
    "google-duration": lambda draw: f"{draw.between(1, 3600)}s",
    "duration": duration,
    "uuid": uuid,
    "email": email,
    "idn-email": email,
    "uri": uri,
    "url": uri,
    "iri": uri,
    "uri-reference": path,
    "iri-reference": path,
    "uri-template": lambda draw: f"{uri(draw)}{{?page}}",
    "uri-map": uri,
    "urn": urn,
    "hostname": hostname,
    "idn-hostname": hostname,
    "ipv4": ipv4,
    "ipv6": ipv6,
    "json-pointer": path,
    "relative-json-pointer": lambda draw: f"{draw.below(4)}{path(draw)}",
    "regex": _one_of(("^[a-z]+$", "^\\d{3}$", "^[A-Z]{2}$")),
    "byte": _one_of(_BASE64),
    "binary": _one_of(_BASE64),
    "password": password,
    "e164": phone,
    "e164phonenumber": phone,
    "phonenumber": phone,
    "phone": phone,
    "timezone": _one_of(_ZONES),
    "currency": _one_of(_CURRENCIES),
    "iso4217": _one_of(_CURRENCIES),
    "isocountrycode": _one_of(_COUNTRIES),
    "httpmethod": _one_of(("GET", "POST", "PUT", "DELETE")),
    "mimetype": _one_of(("application/json", "text/plain", "image/png")),
    "digest": digest,
    "int64": digits,
    "uint64": digits,
    "int32": digits,
    "decimal": lambda draw: f"{draw.below(10_000)}.{draw.below(100):02d}",
}
"""By the format, or by the format in small letters alone."""


def text_of(name: object) -> Text | None:
    """Who writes text of that format; None if it says nothing here."""
    if not isinstance(name, str):
        return None
    lower = name.lower()
    write = FORMATS.get(lower) or FORMATS.get("".join([letter for letter in lower if letter.isalnum()]))
    return None if write is None else table_of(write)


@lru_cache(maxsize=256)
def table_of(write: Text) -> Text:
    """The same as a row to pick from, unless no two texts of it may be the same."""
    if write in _ALL_DIFFERENT or isinstance(write, ByteTable):
        return write
    draw = Draw(b"texts")
    return ByteTable([write(draw) for _ in range(SIZE)])
