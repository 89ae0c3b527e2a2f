"""Words of identifiers and texts, each worked out once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from toolyard.words.plurals import singular

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Memo(NamedTuple):
    work: functools._lru_cache_wrapper[Any]
    most: int


_MEMOS: list[_Memo] = []


def remembered(most: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Work out each thing once; more than `most` of them are not kept for the next run."""

    def decorate(work: Callable[[K], V]) -> Callable[[K], V]:
        memo = functools.cache(work)
        _MEMOS.append(_Memo(memo, most))
        return memo

    return decorate


def forget_too_many() -> None:
    """Begin again with whatever there is too much of."""
    for memo in _MEMOS:
        if memo.work.cache_info().currsize > memo.most:
            memo.work.cache_clear()


def forget() -> None:
    """Work out everything anew, as a process does that has just begun."""
    for memo in _MEMOS:
        memo.work.cache_clear()


_REMEMBERED = 65536
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+s(?![a-z])|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+")

_FORMS = {
    **dict.fromkeys(("identifier", "uid", "sid", "ids", "pk", "oid"), ("id",)),
    "addr": ("address",),
    "acct": ("account",),
    "amt": ("amount",),
    "apis": ("api",),
    "app": ("application",),
    "cat": ("category",),
    "cfg": ("configuration",),
    "config": ("configuration",),
    "conf": ("configuration",),
    "ccy": ("currency",),
    "dept": ("department",),
    "desc": ("description",),
    "dest": ("destination",),
    "dir": ("directory",),
    "doc": ("document",),
    "env": ("environment",),
    "filename": ("file", "name"),
    "filepath": ("file", "path"),
    "firstname": ("first", "name"),
    "fullname": ("full", "name"),
    "geo": ("geo",),
    "hostname": ("host", "name"),
    "img": ("image",),
    "info": ("information",),
    "lang": ("language",),
    "lastname": ("last", "name"),
    "lat": ("latitude",),
    "lng": ("longitude",),
    "lon": ("longitude",),
    "loc": ("location",),
    "msg": ("message",),
    "msisdn": ("phone",),
    "nickname": ("nick", "name"),
    "num": ("number",),
    "org": ("organization",),
    "organisation": ("organization",),
    "param": ("parameter",),
    "pct": ("percent",),
    "percentage": ("percent",),
    "guid": ("uuid",),
    "pkg": ("package",),
    "phonenumber": ("phone", "number"),
    "pic": ("picture",),
    "postcode": ("postal", "code"),
    "zip": ("postal",),
    "zipcode": ("postal", "code"),
    "prod": ("product",),
    "qty": ("quantity",),
    "ref": ("reference",),
    "repo": ("repository",),
    "src": ("source",),
    "tel": ("phone",),
    "telephone": ("phone",),
    "temp": ("temperature",),
    "timezone": ("time", "zone"),
    "tz": ("time", "zone"),
    "txn": ("transaction",),
    "uri": ("url",),
    "link": ("url",),
    "href": ("url",),
    "userid": ("user", "id"),
    "username": ("user", "login"),
    "val": ("value",),
    "ver": ("version",),
    "vol": ("volume",),
    "mail": ("email",),
    "ticker": ("symbol",),
}


@remembered(_REMEMBERED)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name: lower case, singular, abbreviations written out."""
    return tuple(words_in(name))


def words_in(text: str) -> list[str]:
    """The same of a text that is not worth remembering."""
    found: list[str] = []
    letters = text.replace("_", "")
    if letters.islower() and letters.isalpha() and letters.isascii():
        # `user_name`, as half of all names are: nothing to look for.
        parts = text.split("_") if len(letters) < len(text) else [text]
    else:
        parts = _PARTS.findall(text.replace("ID", "Id"))
    for part in parts:
        found += _form(part)
    return found


@remembered(_REMEMBERED)
def _form(part: str) -> tuple[str, ...]:
    word = part.lower()
    if not word:
        return ()
    if word in _FORMS:
        return _FORMS[word]
    if word[-1] != "s":
        return (word,)
    single = singular(word)
    return _FORMS.get(single, (single,))
