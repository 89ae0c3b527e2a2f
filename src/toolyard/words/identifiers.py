"""Split identifiers into words; English plurals; what verbs in tool names do and return."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

_ANY_SCRIPT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_ASCII = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def word_set(words: str) -> frozenset[str]:
    """Split a list of words in one text, as long tables of words are written."""
    return frozenset(words.split())


def split_identifier(name: str) -> list[str]:
    """The words of a name in lower case: `petStatus_code2` gives pet, status, code, 2."""
    return [word.lower() for word in _ANY_SCRIPT.findall(name)]


def split_ascii_identifier(name: str) -> list[str]:
    """As `split_identifier`, but non-ASCII letters only separate words: `\u00e9Token` gives token."""
    return [word.lower() for word in _ASCII.findall(name)]


def snake_case(name: str) -> str:
    """`GetHTTPStatus` as `get_http_status`."""
    return _HUMP.sub("_", name).lower()


@lru_cache(maxsize=20_000)
def plain_letters(name: str) -> str:
    """A name normalised for comparison: `petId`, `pet_id` and `Pet-ID` are equal."""
    return "".join([letter for letter in name if letter.isalnum()]).lower()


_UNCHANGED = word_set(
    """access address advice alias always analysis analytics as atlas aws axis basis bias bonus boss bus business campus
    canvas census class compass cross css data diagnosis dns dss economics emphasis gas gps has https hypothesis
    info information ios is kubernetes lens less loss lyrics mathematics means news pass physics plus politics process
    progress radius sales series sms species ss statistics status success synopsis thesis this tls traffic us
    virus was weather yes"""
)
"""Words that end like a plural but are not, or that are singular and plural alike."""
_UNEVEN = """
    analyses analysis, calories calorie, children child, clinics clinic, comics comic, cookies cookie, criteria
    criterion, epics epic, fabrics fabric, heroes hero, indices index, leaves leaf, matrices matrix, men man, metrics
    metric, movies movie, people person, potatoes potato, relics relic, rubrics rubric, ties tie, topics topic,
    vertices vertex, women woman, zombies zombie"""
_IRREGULAR: Mapping[str, str] = dict(pair.split() for pair in _UNEVEN.split(","))
_PLURALS = {one: several for several, one in _IRREGULAR.items()}


def is_plural(word: str) -> bool:
    """True for a plural noun."""
    if word in _UNCHANGED or len(word) < 2:
        return False
    return word in _IRREGULAR or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ics")))


def singular(word: str) -> str:
    """`cities` to `city`; other words are unchanged."""
    if not is_plural(word):
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def plural(word: str) -> str:
    """`city` to `cities`; plurals are unchanged."""
    if word in _UNCHANGED or is_plural(word):
        return word
    if word in _PLURALS:
        return _PLURALS[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "z")) else "s")


CrudVerb = Literal["create", "get", "list", "update", "replace", "delete", "act", "none"]
"""The operation on entities; `act` is any other change of one, `none` involves no entity."""

_VERBS: Mapping[CrudVerb, str] = {
    "create": "create add insert register make new book schedule open post upload submit place start issue reserve",
    "get": "get read fetch retrieve show describe view lookup info",
    "list": "list search find query browse enumerate index filter",
    "update": "update edit modify change set patch rename",
    "replace": "replace put upsert",
    "delete": "delete remove destroy drop erase",
    "act": (
        "send cancel close archive publish approve reject pay run enable disable activate deactivate stop restart "
        "transfer merge"
    ),
}
CRUD_BY_VERB: Mapping[str, CrudVerb] = {verb: crud for crud, verbs in _VERBS.items() for verb in verbs.split()}
CRUD_BY_METHOD: Mapping[str, CrudVerb] = {
    "get": "get",
    "head": "none",
    "put": "replace",
    "patch": "update",
    "delete": "delete",
}
"""The operation of an HTTP method on a path that names one entity; `post` is missing, since it depends on the path."""

_STATES = {
    "accept": "accepted",
    "activate": "active activated enabled",
    "approve": "approved accepted",
    "archive": "archived",
    "block": "blocked",
    "cancel": "cancelled canceled",
    "close": "closed",
    "complete": "completed complete done finished",
    "confirm": "confirmed",
    "deactivate": "inactive deactivated disabled",
    "decline": "declined rejected",
    "deliver": "delivered",
    "disable": "disabled inactive",
    "enable": "enabled active",
    "finish": "finished completed done",
    "lock": "locked",
    "merge": "merged",
    "pause": "paused",
    "pay": "paid",
    "publish": "published live",
    "refund": "refunded",
    "reject": "rejected declined denied",
    "reopen": "reopened open",
    "resolve": "resolved solved closed",
    "resume": "active running resumed",
    "run": "running started active",
    "send": "sent",
    "ship": "shipped",
    "stop": "stopped inactive",
    "suspend": "suspended",
    "unarchive": "active unarchived",
    "unblock": "active unblocked",
    "unlock": "unlocked",
    "unpublish": "draft unpublished",
    "void": "voided void",
}
STATES_BY_ACTION = {action: tuple(states.split()) for action, states in _STATES.items()}
"""The states of an entity after an action, likeliest first."""

Answer = Literal["thing", "list", "flag", "number", "id", "success", "converted"]
"""What a tool named by a verb returns: an entity, several of them, yes or no, a number, the id of a new entity, whether
it succeeded, or its input in another form."""

_ANSWERS_OF_CRUD: Mapping[CrudVerb, Answer] = {
    "create": "id",
    "get": "thing",
    "list": "list",
    **dict.fromkeys(("update", "replace", "delete", "act"), "success"),
}
_ANSWERS: Mapping[Answer, str] = {
    "thing": (
        "obtain access provide give display return query load pull look see know tell download scrape inspect monitor "
        "track review learn explain define consult receive check offer present ask help find locate choose select pick "
        "identify extract detect recognize diagnose match rank collect gather generate write compose draft produce "
        "build design render plot draw visualize invent craft paint simulate analyze analyse classify compare "
        "categorize interpret investigate examine study profile audit segment cluster"
    ),
    "list": "recommend suggest discover explore scan",
    "flag": "are can does validate verify authenticate confirm test contains exists should have",
    "number": (
        "calculate compute estimate count measure sum determine predict forecast evaluate assess solve integrate "
        "differentiate derive project quantify rate average calc factorize"
    ),
    "id": (
        "order purchase buy hire enroll apply donate pay request rent subscribe invite assign join sign deposit "
        "withdraw save store log record file publish initiate launch plan arrange setup trade charge clone duplicate "
        "fund refund signup transfer"
    ),
    "success": (
        "exchange move control turn adjust clear reset lock unlock play pause resume reply notify share mark accept "
        "restore backup deploy install uninstall configure connect disconnect execute reboot revoke grant block "
        "unblock mute follow unfollow like rotate increase decrease switch toggle remind alert call dial navigate "
        "feed clean wash cook brew export import sync print allocate perform manage train handle do login logout"
    ),
    "converted": (
        "translate convert summarize encrypt decrypt encode decode compress decompress resize sort filter format "
        "reverse correct transcribe paraphrase rewrite proofread parse normalize optimize improve replace transform "
        "crop hash tokenize round shuffle concatenate split trim capitalize rephrase simplify enhance geocode"
    ),
}
ANSWER_BY_VERB: Mapping[str, Answer] = {
    **{verb: _ANSWERS_OF_CRUD[crud] for verb, crud in CRUD_BY_VERB.items() if verb not in ("info", "index", "new")},
    **{verb: answer for answer, verbs in _ANSWERS.items() for verb in verbs.split()},
    **dict.fromkeys(("is", "has"), "flag"),
}


def base_verb(word: str) -> str | None:
    """The base form of a known verb: `book` for `books` and `booking`; None for an unknown one."""
    tries = [word]
    if word.endswith("ies"):
        tries.append(word[:-3] + "y")
    if word.endswith("es"):
        tries.append(word[:-2])
    if word.endswith("s") and not word.endswith("ss"):
        tries.append(word[:-1])
    if word.endswith("ing"):
        tries += [word[:-3], word[:-3] + "e", word[:-4]]
    return next((form for form in tries if form in ANSWER_BY_VERB), None)
