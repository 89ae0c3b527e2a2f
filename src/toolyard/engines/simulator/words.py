"""What the name of a property says about its value: cities for `city`, prices for `price`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolyard.engines.simulator import formats
from toolyard.engines.simulator.formats import Text

_WORDS: Mapping[str, tuple[str, ...]] = {
    "city": ("Paris", "Berlin", "Tokyo", "Madrid", "Oslo", "Toronto", "Lisbon", "Nairobi", "Lima", "Seoul"),
    "country": ("France", "Germany", "Japan", "Spain", "Norway", "Canada", "Portugal", "Kenya", "Peru"),
    "state": ("active", "open", "pending", "closed"),
    "region": ("north", "south", "east", "west", "central"),
    "street": ("12 Main Street", "4 Station Road", "81 Park Avenue", "7 Mill Lane"),
    "address": ("12 Main Street, Springfield", "4 Station Road, Ashford", "81 Park Avenue, Riverton"),
    "zip": ("10115", "75001", "28013", "02139", "94105"),
    "postal": ("10115", "75001", "28013", "02139", "94105"),
    "currency": ("EUR", "USD", "GBP", "JPY", "CHF"),
    "language": ("en", "de", "fr", "es", "ja"),
    "locale": ("en-US", "de-DE", "fr-FR", "ja-JP"),
    "status": ("active", "pending", "completed", "open"),
    "type": ("standard", "basic", "custom", "default"),
    "kind": ("standard", "basic", "custom", "default"),
    "category": ("electronics", "books", "travel", "food", "sports", "music"),
    "genre": ("jazz", "drama", "science fiction", "documentary"),
    "color": ("red", "green", "blue", "black", "white"),
    "colour": ("red", "green", "blue", "black", "white"),
    "gender": ("female", "male", "other"),
    "firstname": ("Ada", "Grace", "Alan", "Katherine", "Edsger", "Barbara", "Radia"),
    "lastname": ("Lovelace", "Hopper", "Turing", "Johnson", "Dijkstra", "Liskov", "Perlman"),
    "username": ("ada", "grace", "alan", "katherine", "edsger", "barbara", "radia"),
    "login": ("ada", "grace", "alan", "katherine", "edsger", "barbara", "radia"),
    "author": ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Barbara Liskov"),
    "owner": ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Barbara Liskov"),
    "person": ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Barbara Liskov"),
    "name": ("Aurora", "Beacon", "Cedar", "Delta", "Ember", "Falcon", "Garnet", "Harbor", "Indigo", "Juniper"),
    "title": ("Quarterly report", "Getting started", "Weekly notes", "Release plan", "Field guide"),
    "subject": ("Quarterly report", "Meeting on Monday", "Your order", "Welcome"),
    "label": ("urgent", "draft", "reviewed", "archived"),
    "tag": ("new", "popular", "internal", "seasonal"),
    "company": ("Northwind Ltd", "Blue Harbor Inc", "Cedar & Sons", "Ember Labs"),
    "organization": ("Northwind Ltd", "Blue Harbor Inc", "Cedar & Sons", "Ember Labs"),
    "department": ("engineering", "sales", "finance", "support"),
    "job": ("engineer", "analyst", "designer", "manager"),
    "role": ("admin", "editor", "viewer", "member"),
    "description": ("A short description.", "Made for testing.", "Nothing unusual here.", "See the notes."),
    "summary": ("All went well.", "Three points to follow up.", "No change since last week."),
    "message": ("The request was handled.", "All went well.", "Done."),
    "error": ("", "none"),
    "comment": ("Looks good.", "Please check again.", "Thanks!"),
    "text": ("The quick brown fox.", "It rained all day.", "See you tomorrow."),
    "content": ("The quick brown fox.", "It rained all day.", "See you tomorrow."),
    "condition": ("sunny", "cloudy", "light rain", "clear", "windy"),
    "weather": ("sunny", "cloudy", "light rain", "clear", "windy"),
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
    "email": formats.email,
    "mail": formats.email,
    "url": formats.uri,
    "uri": formats.uri,
    "href": formats.uri,
    "link": formats.uri,
    "website": formats.uri,
    "uuid": formats.uuid,
    "guid": formats.uuid,
    "phone": formats.phone,
    "mobile": formats.phone,
    "fax": formats.phone,
    "ip": formats.ipv4,
    "hostname": formats.hostname,
    "domain": formats.hostname,
    "date": formats.date,
    "birthday": formats.date,
    "day": formats.date,
    "timestamp": formats.date_time,
    "time": formats.date_time,
    "at": formats.date_time,
    "datetime": formats.date_time,
    "created": formats.date_time,
    "updated": formats.date_time,
    "modified": formats.date_time,
    "expires": formats.date_time,
    "sha": formats.hexadecimal_40,
    "hash": formats.hexadecimal_40,
    "checksum": formats.hexadecimal_40,
    "token": formats.hexadecimal_32,
    "id": formats.hexadecimal_12,
    "ids": formats.hexadecimal_12,
    "sid": formats.hexadecimal_32,
    "key": formats.hexadecimal_12,
    "number": formats.digits,
    "price": lambda draw: f"{draw.between(1, 500)}.{draw.below(100):02d}",
    "amount": lambda draw: f"{draw.between(1, 500)}.{draw.below(100):02d}",
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "latitude": (-80, 80),
    "lat": (-80, 80),
    "longitude": (-180, 180),
    "lon": (-180, 180),
    "lng": (-180, 180),
    "price": (1, 500),
    "cost": (1, 500),
    "amount": (1, 1000),
    "total": (1, 1000),
    "balance": (0, 10_000),
    "salary": (30_000, 150_000),
    "age": (18, 90),
    "year": (1990, 2026),
    "month": (1, 12),
    "day": (1, 28),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
    "percent": (0, 100),
    "percentage": (0, 100),
    "rate": (0, 5),
    "rating": (1, 5),
    "score": (0, 100),
    "probability": (0, 1),
    "confidence": (0, 1),
    "temperature": (-10, 35),
    "temp": (-10, 35),
    "humidity": (20, 95),
    "speed": (0, 120),
    "distance": (1, 2000),
    "weight": (1, 200),
    "height": (1, 250),
    "width": (1, 1920),
    "length": (1, 250),
    "count": (0, 50),
    "quantity": (1, 20),
    "page": (1, 5),
    "limit": (10, 50),
    "size": (1, 5000),
    "duration": (1, 240),
    "timestamp": (1_672_531_200, 1_772_531_200),
    "created": (1_672_531_200, 1_772_531_200),
    "updated": (1_672_531_200, 1_772_531_200),
    "at": (1_672_531_200, 1_772_531_200),
    "ts": (1_672_531_200, 1_772_531_200),
    "port": (1024, 65_000),
    "status": (0, 5),
    "code": (100, 999),
    "version": (1, 9),
    "id": (1000, 999_999),
    "number": (1, 9999),
}

_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")


def pieces(name: str) -> list[str]:
    """The words a name is made of, in small letters: `petStatus_code` is pet, status, code."""
    return [piece.lower() for piece in _PIECE.findall(name)]


def words_for(name: str) -> tuple[str, ...] | None:
    """Words that fit a property of that name."""
    found = pieces(name)
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
    found = pieces(name)
    whole = "".join(found)
    for end in (whole, *found[-1:]):
        if end in _WORDS:
            return None
        if end in _FORMATS:
            return formats.picked(_FORMATS[end])
    return None


def range_for(name: str) -> tuple[float, float] | None:
    """Numbers that fit a property of that name."""
    for piece in reversed(pieces(name)):
        found = _RANGES.get(piece) or _RANGES.get(piece.removesuffix("s"))
        if found is not None:
            return found
    return None
