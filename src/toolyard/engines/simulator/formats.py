"""Text by the `format` of a schema, and what the name of a property says: cities for `city`, prices for `price`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from toolyard.engines.simulator.draw import SIZE, ByteTable, Draw
from toolyard.words.identifiers import split_identifier

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


_WORDS: Mapping[str, tuple[str, ...]] = {
    "city": ("Paris", "Berlin", "Tokyo", "Madrid", "Oslo", "Toronto", "Lisbon", "Nairobi", "Lima", "Seoul"),
    "country": ("France", "Germany", "Japan", "Spain", "Norway", "Canada", "Portugal", "Kenya", "Peru"),
    "state": ("active", "open", "pending", "closed"),
    "region": ("north", "south", "east", "west", "central"),
    "street": ("12 Main Street", "4 Station Road", "81 Park Avenue", "7 Mill Lane"),
    "address": ("12 Main Street, Springfield", "4 Station Road, Ashford", "81 Park Avenue, Riverton"),
    **dict.fromkeys(("zip", "postal"), ("10115", "75001", "28013", "02139", "94105")),
    "currency": ("EUR", "USD", "GBP", "JPY", "CHF"),
    "language": ("en", "de", "fr", "es", "ja"),
    "locale": ("en-US", "de-DE", "fr-FR", "ja-JP"),
    "status": ("active", "pending", "completed", "open"),
    **dict.fromkeys(("type", "kind"), ("standard", "basic", "custom", "default")),
    "category": ("electronics", "books", "travel", "food", "sports", "music"),
    "genre": ("jazz", "drama", "science fiction", "documentary"),
    **dict.fromkeys(("color", "colour"), ("red", "green", "blue", "black", "white")),
    "gender": ("female", "male", "other"),
    "firstname": ("Ada", "Grace", "Alan", "Katherine", "Edsger", "Barbara", "Radia"),
    "lastname": ("Lovelace", "Hopper", "Turing", "Johnson", "Dijkstra", "Liskov", "Perlman"),
    **dict.fromkeys(("username", "login"), ("ada", "grace", "alan", "katherine", "edsger", "barbara", "radia")),
    **dict.fromkeys(("author", "owner", "person"), ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Barbara Liskov")),
    "name": ("Aurora", "Beacon", "Cedar", "Delta", "Ember", "Falcon", "Garnet", "Harbor", "Indigo", "Juniper"),
    "title": ("Quarterly report", "Getting started", "Weekly notes", "Release plan", "Field guide"),
    "subject": ("Quarterly report", "Meeting on Monday", "Your order", "Welcome"),
    "label": ("urgent", "draft", "reviewed", "archived"),
    "tag": ("new", "popular", "internal", "seasonal"),
    **dict.fromkeys(("company", "organization"), ("Northwind Ltd", "Blue Harbor Inc", "Cedar & Sons", "Ember Labs")),
    "department": ("engineering", "sales", "finance", "support"),
    "job": ("engineer", "analyst", "designer", "manager"),
    "role": ("admin", "editor", "viewer", "member"),
    "description": ("A short description.", "Made for testing.", "Nothing unusual here.", "See the notes."),
    "summary": ("All went well.", "Three points to follow up.", "No change since last week."),
    "message": ("The request was handled.", "All went well.", "Done."),
    "error": ("", "none"),
    "comment": ("Looks good.", "Please check again.", "Thanks!"),
    **dict.fromkeys(("text", "content"), ("The quick brown fox.", "It rained all day.", "See you tomorrow.")),
    **dict.fromkeys(("condition", "weather"), ("sunny", "cloudy", "light rain", "clear", "windy")),
    "unit": ("metric", "imperial"),
    "version": ("1.0.0", "1.4.2", "2.0.1", "3.1.0"),
    "file": ("report.pdf", "notes.txt", "photo.png"),
    "path": ("/docs/readme.txt", "/photos/1.png", "/reports/2025.pdf"),
    "method": ("GET", "POST", "card", "standard"),
    "size": ("small", "medium", "large"),
    "priority": ("low", "normal", "high"),
    "result": ("success", "completed"),
    "airline": ("Northern Air", "Skyline", "Blue Wing"),
    "product": ("desk lamp", "notebook", "water bottle", "headphones"),
    "brand": ("Acme", "Northwind", "Ember"),
    "symbol": ("AAA", "BBB", "XYZ"),
    "mime": ("application/json", "text/plain", "image/png"),
    "note": ("Handle with care.", "Call first.", "No remarks."),
    "duration": ("30 minutes", "2 hours", "45 minutes"),
    "team": ("Red Team", "Blue Team", "Falcons", "Harbor United"),
}
PLAIN_WORDS = ("amber", "birch", "cobalt", "dune", "elm", "fern", "grove", "heath", "iris", "jade", "kelp", "linen")

_FORMATS: Mapping[str, Text] = {
    name: write
    for write, names in (
        (email, "email mail"),
        (uri, "url uri href link website"),
        (uuid, "uuid guid"),
        (phone, "phone mobile fax"),
        (ipv4, "ip"),
        (hostname, "hostname domain"),
        (date, "date birthday day"),
        (date_time, "timestamp time at datetime created updated modified expires"),
        (hexadecimal_40, "sha hash checksum"),
        (hexadecimal_32, "token sid"),
        (hexadecimal_12, "id ids key"),
        (digits, "number"),
        (decimal_price, "price amount"),
    )
    for name in names.split()
}
_RANGES: Mapping[str, tuple[float, float]] = {
    name: (low, high)
    for low, high, names in (
        (-80, 80, "latitude lat"),
        (-180, 180, "longitude lon lng"),
        (1, 500, "price cost"),
        (1, 1000, "amount total"),
        (0, 10_000, "balance"),
        (30_000, 150_000, "salary"),
        (18, 90, "age"),
        (1990, 2026, "year"),
        (1, 12, "month"),
        (1, 28, "day"),
        (0, 23, "hour"),
        (0, 59, "minute second"),
        (0, 100, "percent percentage score"),
        (0, 5, "rate status"),
        (1, 5, "rating page"),
        (0, 1, "probability confidence"),
        (-10, 35, "temperature temp"),
        (20, 95, "humidity"),
        (0, 120, "speed"),
        (1, 2000, "distance"),
        (1, 200, "weight"),
        (1, 250, "height length"),
        (1, 1920, "width"),
        (0, 50, "count"),
        (1, 20, "quantity"),
        (10, 50, "limit"),
        (1, 5000, "size"),
        (1, 240, "duration"),
        (1_672_531_200, 1_772_531_200, "timestamp created updated at ts"),
        (1024, 65_000, "port"),
        (100, 999, "code"),
        (1, 9, "version"),
        (1000, 999_999, "id"),
        (1, 9999, "number"),
    )
    for name in names.split()
}


def words_for(name: str) -> tuple[str, ...] | None:
    """Words that fit a property of that name."""
    found = split_identifier(name)
    whole = "".join(found)
    for end in (whole, *reversed(found)):
        words = _WORDS.get(end) or _WORDS.get(end.removesuffix("s"))
        if words is not None:
            return words
        if end in _FORMATS:
            return None
    return None


def format_for(name: str) -> Text | None:
    """Text of a form that fits a property of that name: addresses, moments, ids."""
    found = split_identifier(name)
    whole = "".join(found)
    for end in (whole, *found[-1:]):
        if end in _WORDS:
            return None
        if end in _FORMATS:
            return table_of(_FORMATS[end])
    return None


def range_for(name: str) -> tuple[float, float] | None:
    """Numbers that fit a property of that name."""
    for piece in reversed(split_identifier(name)):
        found = _RANGES.get(piece) or _RANGES.get(piece.removesuffix("s"))
        if found is not None:
            return found
    return None
