"""`Echoes`: finds the operator's own credentials in what a service answered, and nothing else.

An answer is data: unlike a log it keeps everything that merely looks like a secret. Only the exact values that went
along with the call are taken out, in the forms that wires give them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from toolyard.words.redactor import REDACTED, Redactor, cut_spans, find_occurrences, forms_of, names_a_secret

SHORTEST = 8
"""Characters from which a value is found by no accident."""
_LOOKS = Redactor()
_SCHEMES = frozenset({"basic", "bearer", "digest", "token", "apikey", "api-key", "key"})


class Echoes:
    """The forms of some credentials; those below eight characters are left out."""

    __slots__ = ("_forms", "_needles", "_numbers")

    def __init__(self, secrets: Iterable[str]) -> None:
        known = dict.fromkeys(plain for secret in secrets if len(plain := secret.strip()) >= SHORTEST)
        self._forms = tuple(dict.fromkeys(form for secret in known for form in forms_of(secret)))
        needles = {json.dumps(form, ensure_ascii=False)[1:-1].encode() for form in self._forms}
        # Of those that hold another, the other is enough to look for.
        self._needles = tuple(sorted(one for one in needles if not any(o in one for o in needles if o != one)))
        self._numbers = frozenset(secret for secret in known if not secret.strip("0123456789.-"))

    def occur_in(self, text: bytes) -> bool:
        """True if the JSON text may hold one: a scan, so that answers without any cost nothing else."""
        for needle in self._needles:  # noqa: SIM110 - a generator would cost more than the scan of a short answer
            if needle in text:
                return True
        return False

    def hide(self, value: Any) -> Any:
        """A copy of a JSON value without them, in texts and in keys."""
        try:
            return self._hide(value) if self._forms else value
        except RecursionError:
            return REDACTED

    def text(self, text: str) -> str:
        """The text without them."""
        return cut_spans(text, [span for form in self._forms if form in text for span in find_occurrences(form, text)])

    def _hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        # Loops, not comprehensions: each of those is a frame more a level, and answers may be deep.
        if isinstance(value, dict):
            named = {}
            for key, item in value.items():
                named[self.text(key)] = self._hide(item)
            return named
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                items.append(self._hide(item))
            return items
        if type(value) in (int, float) and str(value) in self._numbers:
            return REDACTED
        return value


echoes_of = lru_cache(maxsize=256)(Echoes)
"""The same for the same tuple of secrets, made once."""


def find_credentials(name: str, value: str) -> list[str]:
    """What is a credential in a header, a variable or a parameter of that name: the value and the parts of it.

    Nothing if neither name nor value says so: a tenant or a region also stands in answers, where it is data.
    """
    if not names_a_secret(name) and _LOOKS.text(value) == value:
        return []
    scheme, _, rest = value.strip().partition(" ")
    found = [value, rest.strip()] if scheme.lower() in _SCHEMES else [value]
    if scheme.lower() == "basic":
        found += _read_basic(rest)
    return [item for item in found if len(item) >= SHORTEST]


def _read_basic(encoded: str) -> list[str]:
    """`user:password`, and the password."""
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return []
    return [pair, pair.partition(":")[2]]
