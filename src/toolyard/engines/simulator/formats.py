"""Text by the `format` of a schema, and values that fit a property's name: cities for `city`, prices for `price`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolyard.engines.simulator.draw import Draw, one_of
from toolyard.words.identifiers import split_identifier

Text = Callable[[Draw], str]

_DOMAINS = ("example.com", "example.org", "example.net")
_PEOPLE = ("ada", "grace", "alan", "katherine", "edsger", "barbara", "donald", "margaret", "linus", "radia")
_PATHS = ("items", "reports", "photos", "orders", "docs", "events", "pages")
_DAYS = [f"{2023 + at // 336}-{at // 28 % 12 + 1:02d}-{at % 28 + 1:02d}" for at in range(4 * 12 * 28)]
_MOMENTS = [f"{_DAYS[at * 7 % 1344]}T{at % 24:02d}:{at * 11 % 60:02d}:{at * 17 % 60:02d}Z" for at in range(4096)]


def _write_uuid(draw: Draw) -> str:
    text = draw.hexadecimal(32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


def _write_time(draw: Draw) -> str:
    number = draw.below(86_400)
    return f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"


def _write_uri(draw: Draw) -> str:
    return f"https://{_DOMAINS[draw.below(3)]}{_write_path(draw)}"


def _write_path(draw: Draw) -> str:
    return f"/{_PATHS[draw.below(len(_PATHS))]}/{draw.below(100_000)}"


def _write_person(draw: Draw) -> str:
    return f"{_PEOPLE[draw.below(len(_PEOPLE))]}{draw.below(100)}"


_FORMATS: Mapping[str, Text] = {
    "date": one_of(_DAYS),
    "time": _write_time,
    "date-time": one_of(_MOMENTS),
    "google-duration": lambda draw: f"{draw.between(1, 3600)}s",
    "duration": lambda draw: f"PT{draw.between(1, 59)}M",
    "uuid": _write_uuid,
    "urn": lambda draw: f"urn:uuid:{_write_uuid(draw)}",
    # Reserved domains and addresses only.
    "email": lambda draw: f"{_write_person(draw)}@{_DOMAINS[draw.below(3)]}",
    "hostname": lambda draw: f"{_write_person(draw)}.{_DOMAINS[draw.below(3)]}",
    "uri": _write_uri,
    "uri-template": lambda draw: f"{_write_uri(draw)}{{?page}}",
    "ipv4": lambda draw: f"{('192.0.2', '198.51.100', '203.0.113')[draw.below(3)]}.{draw.between(1, 254)}",
    "ipv6": lambda draw: f"2001:db8::{draw.below(65_536):x}:{draw.below(65_536):x}",
    "uri-reference": _write_path,
    "relative-json-pointer": lambda draw: f"{draw.below(4)}{_write_path(draw)}",
    "regex": one_of(("^[a-z]+$", "^\\d{3}$", "^[A-Z]{2}$")),
    "byte": one_of(("SGVsbG8=", "d29ybGQ=", "dG9vbHlhcmQ=", "c2FtcGxl", "ZGF0YQ==", "dmFsdWU=")),
    # Letters and digits that are not easily confused.
    "password": lambda draw: draw.letters("abcdefghjkmnpqrstuvwxyz23456789", 12),
    # A range reserved for fictional use.
    "phone": lambda draw: f"+1555{draw.below(10_000_000):07d}",
    "timezone": one_of(("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Europe/Paris", "Australia/Sydney", "UTC")),
    "currency": one_of(("EUR", "USD", "GBP", "JPY", "CHF", "SEK")),
    "isocountrycode": one_of(("DE", "US", "FR", "JP", "GB", "SE", "ES", "IT")),
    "httpmethod": one_of(("GET", "POST", "PUT", "DELETE")),
    "mimetype": one_of(("application/json", "text/plain", "image/png")),
    "digest": lambda draw: f"sha256:{draw.hexadecimal(64)}",
    "decimal": lambda draw: f"{draw.below(10_000)}.{draw.below(100):02d}",
    # Capitalised, so that no schema can refer to them: formats are looked up in lower case.
    "Digits": lambda draw: str(draw.between(1, 9_999_999)),
    "Price": lambda draw: f"{draw.between(1, 500)}.{draw.below(100):02d}",
    "Id": lambda draw: draw.hexadecimal(12),
    "Token": lambda draw: draw.hexadecimal(32),
    "Hash": lambda draw: draw.hexadecimal(40),
}
_ALIASES: Mapping[str, str] = {
    alias: name
    for name, aliases in (
        ("date-time", "datetime date_time google-datetime"),
        ("email", "idn-email"),
        ("uri", "url iri uri-map"),
        ("uri-reference", "iri-reference json-pointer"),
        ("hostname", "idn-hostname"),
        ("byte", "binary"),
        ("phone", "e164 e164phonenumber phonenumber"),
        ("currency", "iso4217"),
        ("Digits", "int64 uint64 int32"),
    )
    for alias in aliases.split()
}


def text_of(name: object) -> Text | None:
    """The writer of text in that format; None if the format is unknown."""
    if not isinstance(name, str):
        return None
    lower = name.lower()
    for spelling in (lower, "".join([letter for letter in lower if letter.isalnum()])):
        known = _ALIASES.get(spelling, spelling)
        if known in _FORMATS:
            return _FORMATS[known]
    return None


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

_FORMAT_BY_NAME: Mapping[str, str] = {
    name: known
    for known, names in (
        ("email", "email mail"),
        ("uri", "url uri href link website"),
        ("uuid", "uuid guid"),
        ("phone", "phone mobile fax"),
        ("ipv4", "ip"),
        ("hostname", "hostname domain"),
        ("date", "date birthday day"),
        ("date-time", "timestamp time at datetime created updated modified expires"),
        ("Hash", "sha hash checksum"),
        ("Token", "token sid"),
        ("Id", "id ids key"),
        ("Digits", "number"),
        ("Price", "price amount"),
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
        if end in _FORMAT_BY_NAME:
            return None
    return None


def format_for(name: str) -> Text | None:
    """A writer of text that fits a property of that name, such as addresses, times and ids."""
    found = split_identifier(name)
    whole = "".join(found)
    for end in (whole, *found[-1:]):
        if end in _WORDS:
            return None
        if end in _FORMAT_BY_NAME:
            return _FORMATS[_FORMAT_BY_NAME[end]]
    return None


def range_for(name: str) -> tuple[float, float] | None:
    """A range of numbers that fits a property of that name."""
    for piece in reversed(split_identifier(name)):
        found = _RANGES.get(piece) or _RANGES.get(piece.removesuffix("s"))
        if found is not None:
            return found
    return None
