"""Thirty typical functions, each with the arguments of a call."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel


class Unit(enum.Enum):
    """An enum of texts."""

    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Address(BaseModel):
    """A model inside others."""

    street: str
    city: str
    zip_code: str | None = None


class Customer(BaseModel):
    """A model with a model and a list inside."""

    name: str
    email: str
    address: Address
    tags: list[str] = []


@dataclass
class Point:
    """A dataclass."""

    x: float
    y: float


def add(a: int, b: int) -> int:
    return a + b


def greet(name: str, greeting: str = "Hello") -> str:
    return f"{greeting}, {name}"


def convert(amount: float, source: str, target: str = "EUR") -> float:
    return amount * 1.1


def weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius", days: int = 3) -> dict[str, Any]:
    return {"city": city, "unit": unit, "days": [{"day": day, "high": 20 + day} for day in range(days)]}


def search(query: str, limit: int = 10, offset: int = 0, language: str | None = None) -> list[dict[str, Any]]:
    return [{"title": f"{query} {number}", "score": 1.0} for number in range(3)]


def tag_all(items: list[str], tag: str) -> list[str]:
    return [f"{tag}:{item}" for item in items]


def total(prices: list[float], discount: float | None = None) -> float:
    return sum(prices)


def lookup(key: str, table: dict[str, str]) -> str | None:
    return table.get(key)


def is_free(day: datetime.date) -> bool:
    return day.weekday() > 4


def remind(text: str, at: datetime.datetime) -> str:
    return f"{text} {at.isoformat()}"


def temperature(city: str, unit: Unit = Unit.CELSIUS) -> str:
    return f"{city} {unit.value}"


def create_customer(customer: Customer) -> dict[str, Any]:
    return {"id": 7, "name": customer.name, "city": customer.address.city}


def get_customer(number: int) -> Customer:
    return Customer(name="Ada", email="ada@example.org", address=Address(street="1 Main", city="Paris"))


def ship(address: Address, express: bool = False) -> str:
    return f"{address.city} {express}"


def distance(start: Point, end: Point) -> float:
    return abs(start.x - end.x) + abs(start.y - end.y)


def midpoint(start: Point, end: Point) -> Point:
    return Point((start.x + end.x) / 2, (start.y + end.y) / 2)


def list_files(folder: str = ".", pattern: str = "*", recursive: bool = False) -> list[str]:
    return [f"{folder}/a.txt", f"{folder}/b.txt"]


def read_file(path: str, start: int = 1, end: int | None = None) -> str:
    return "line\n" * 20


def write_file(path: str, content: str, overwrite: bool = False) -> dict[str, Any]:
    return {"path": path, "bytes": len(content)}


def send_mail(to: list[str], subject: str, body: str, cc: list[str] | None = None) -> dict[str, Any]:
    return {"sent": len(to), "id": "m-1"}


def book_table(restaurant: str, people: int, day: datetime.date, time: str = "19:00") -> dict[str, Any]:
    return {"restaurant": restaurant, "people": people, "confirmed": True}


def find_flights(
    origin: str, destination: str, day: str, cabin: Literal["economy", "business"] = "economy", adults: int = 1
) -> list[dict[str, Any]]:
    return [{"number": "LH1", "price": 120.5, "stops": []}, {"number": "AF2", "price": 99.0, "stops": ["CDG"]}]


def update_row(table: str, row: int, values: dict[str, Any]) -> bool:
    return True


def run_query(sql: str, parameters: list[str | int | float | None] | None = None) -> list[list[Any]]:
    return [[1, "a"], [2, "b"]]


def matrix_sum(rows: list[list[float]]) -> list[float]:
    return [sum(row) for row in rows]


def now() -> str:
    return "2026-01-01T00:00:00Z"


def flip(value: bool) -> bool:
    return not value


def translate(text: str, target: Literal["de", "en", "fr"], formal: bool | None = None) -> str:
    return text.upper()


def add_items(cart: str, items: list[dict[str, Any]], coupon: str | None = None) -> dict[str, Any]:
    return {"cart": cart, "items": items, "total": 12.5}


def plan_trip(cities: list[str], start: datetime.date, budget: float = 1000.0) -> dict[str, Any]:
    return {"stops": [{"city": city, "nights": 2} for city in cities], "cost": budget}


_ADDRESS = {"street": "1 Main", "city": "Paris"}
_CUSTOMER = {"name": "Ada", "email": "ada@example.org", "address": _ADDRESS, "tags": ["new"]}
_POINTS = {"start": {"x": 0.5, "y": 1.5}, "end": {"x": 2.5, "y": 3.5}}

EVERYDAY: list[tuple[Any, dict[str, Any]]] = [
    (add, {"a": 1, "b": 2}),
    (greet, {"name": "Ada"}),
    (convert, {"amount": 12.5, "source": "USD"}),
    (weather, {"city": "Paris"}),
    (search, {"query": "tools", "limit": 5}),
    (tag_all, {"items": ["a", "b", "c"], "tag": "x"}),
    (total, {"prices": [1.5, 2.5, 3.25]}),
    (lookup, {"key": "a", "table": {"a": "1", "b": "2"}}),
    (is_free, {"day": "2026-05-01"}),
    (remind, {"text": "call", "at": "2026-05-01T10:00:00Z"}),
    (temperature, {"city": "Paris", "unit": "celsius"}),
    (create_customer, {"customer": _CUSTOMER}),
    (get_customer, {"number": 7}),
    (ship, {"address": _ADDRESS, "express": True}),
    (distance, _POINTS),
    (midpoint, _POINTS),
    (list_files, {"folder": "src"}),
    (read_file, {"path": "a.txt", "start": 2}),
    (write_file, {"path": "a.txt", "content": "some text"}),
    (send_mail, {"to": ["a@example.org", "b@example.org"], "subject": "Hi", "body": "Hello"}),
    (book_table, {"restaurant": "Chez Ada", "people": 2, "day": "2026-05-01"}),
    (find_flights, {"origin": "TXL", "destination": "CDG", "day": "2026-05-01"}),
    (update_row, {"table": "people", "row": 3, "values": {"name": "Ada", "age": 36}}),
    (run_query, {"sql": "select 1", "parameters": ["a", 1, 2.5, None]}),
    (matrix_sum, {"rows": [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]]}),
    (now, {}),
    (flip, {"value": True}),
    (translate, {"text": "hello", "target": "de"}),
    (add_items, {"cart": "c1", "items": [{"sku": "a", "count": 2}, {"sku": "b", "count": 1}]}),
    (plan_trip, {"cities": ["Paris", "Lyon"], "start": "2026-05-01"}),
]
"""Each with the arguments of a call."""
