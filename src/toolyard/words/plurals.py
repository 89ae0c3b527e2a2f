"""What one thing is called, by what several are called, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping

_UNCHANGED = frozenset(
    """access address advice alias always analysis analytics as atlas aws axis basis bias bonus boss bus business campus
    canvas census class compass cross css data diagnosis dns dss economics emphasis gas gps has https hypothesis
    info information ios is kubernetes lens less loss lyrics mathematics means news pass physics plus politics process
    progress radius sales series sms species ss statistics status success synopsis thesis this tls traffic us
    virus was weather yes""".split()  # noqa: SIM905
)
"""What ends like a plural and is none, or means one and several."""
_IRREGULAR: Mapping[str, str] = {
    "analyses": "analysis",
    "calories": "calorie",
    "children": "child",
    "cookies": "cookie",
    "criteria": "criterion",
    "heroes": "hero",
    "indices": "index",
    "leaves": "leaf",
    "matrices": "matrix",
    "men": "man",
    "movies": "movie",
    "people": "person",
    "potatoes": "potato",
    "ties": "tie",
    "vertices": "vertex",
    "women": "woman",
    "zombies": "zombie",
}
_PLURALS = {one: several for several, one in _IRREGULAR.items()}


def is_plural(word: str) -> bool:
    """True for a noun that stands for several things."""
    if word in _UNCHANGED or len(word) < 2:
        return False
    return word in _IRREGULAR or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ics")))


def singular(word: str) -> str:
    """`cities` -> `city`; what is no plural stays."""
    if not is_plural(word):
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def plural(word: str) -> str:
    """`city` -> `cities`; what is a plural already stays."""
    if word in _UNCHANGED or is_plural(word):
        return word
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "z")) else "s")
