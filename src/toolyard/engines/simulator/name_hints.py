"""What the name of a property says about its value: cities for `city`, prices for `price`."""

from __future__ import annotations

from collections.abc import Mapping

from toolyard.engines.simulator import formats
from toolyard.engines.simulator.formats import Text
from toolyard.words.identifiers import split_identifier

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
        (formats.email, "email mail"),
        (formats.uri, "url uri href link website"),
        (formats.uuid, "uuid guid"),
        (formats.phone, "phone mobile fax"),
        (formats.ipv4, "ip"),
        (formats.hostname, "hostname domain"),
        (formats.date, "date birthday day"),
        (formats.date_time, "timestamp time at datetime created updated modified expires"),
        (formats.hexadecimal_40, "sha hash checksum"),
        (formats.hexadecimal_32, "token sid"),
        (formats.hexadecimal_12, "id ids key"),
        (formats.digits, "number"),
        (formats.decimal_price, "price amount"),
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
            return formats.table_of(_FORMATS[end])
    return None


def range_for(name: str) -> tuple[float, float] | None:
    """Numbers that fit a property of that name."""
    for piece in reversed(split_identifier(name)):
        found = _RANGES.get(piece) or _RANGES.get(piece.removesuffix("s"))
        if found is not None:
            return found
    return None
