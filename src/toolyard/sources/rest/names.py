"""Names and descriptions of operations as tools: a valid name from the operationId, unique names, bounded text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

from toolyard.constants import MAX_NAME_LENGTH
from toolyard.model.errors import InvalidNameError
from toolyard.model.names import check_tool_name

_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")
_ODD = re.compile(r"[^A-Za-z0-9_.\-/ ]+")
_COLONS = re.compile(r":{2,}")


def base_name(operation_id: object, method: str, path: str) -> str:
    """The operationId, changed only as far as the name grammar requires; without one, from method and path."""
    if isinstance(operation_id, str) and operation_id.strip():
        if _is_legal(operation_id):
            return operation_id
        for spelling in _list_spellings(operation_id):
            if _is_legal(spelling):
                return spelling
            if len(spelling) > MAX_NAME_LENGTH and _is_legal(short := _shorten_name(spelling, operation_id)):
                return short
    return _shorten_name(name_by_path(method, path), f"{method} {path}")


def name_by_path(method: str, path: str) -> str:
    """`get_pets_petId` for `GET /pets/{petId}`."""
    words = _NOT_A_WORD.sub("_", path).strip("_")
    return f"{_NOT_A_WORD.sub('_', method.lower()).strip('_') or 'call'}_{words or 'root'}"


def _list_spellings(text: str) -> Iterable[str]:
    tidy = unicodedata.normalize("NFC", _COLONS.sub(":", text)).strip().strip(":").strip()
    yield tidy
    if tidy.endswith(":invoke"):
        yield tidy.removesuffix(":invoke") + "_invoke"
    yield _ODD.sub("_", unicodedata.normalize("NFKD", tidy)).strip("_ ")


def _is_legal(name: str) -> bool:
    try:
        check_tool_name(name)
    except InvalidNameError:
        return False
    return True


def _shorten_name(name: str, whole: str) -> str:
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - 9].rstrip('_ :')}_{_short_digest(whole)}"


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def distinct_names(operations: Sequence[tuple[str, str, str]]) -> list[str]:
    """A distinct name for each (wanted name, method, path).

    If several want the same name, the first by path and method gets it and the others append theirs. The result does
    not depend on the order of the document, nor on operations that want other names, unless one wants a generated name.
    """
    names = [wanted for wanted, _, _ in operations]
    taken = set(names)
    if len(taken) == len(names):
        return names
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    for name in sorted(group for group, members in groups.items() if len(members) > 1):
        members = sorted(groups[name], key=lambda index: (operations[index][2], operations[index][1]))
        for index in members[1:]:
            names[index] = _other_name(name, operations[index], taken)
            taken.add(names[index])
    return names


def _other_name(name: str, operation: tuple[str, str, str], taken: set[str]) -> str:
    _, method, path = operation
    added = name_by_path(method, path)
    whole = f"{name} {method} {path}"
    candidate = _shorten_name(f"{name}_{added}" if name != added else f"{name}_{_short_digest(whole)}", whole)
    number = 1
    while candidate in taken or not _is_legal(candidate):
        tail = _short_digest(whole) if number == 1 else f"{_short_digest(whole)}_{number}"
        candidate = f"{name[: MAX_NAME_LENGTH - len(tail) - 1].rstrip('_ :')}_{tail}"
        number += 1
    return candidate


MAX_LENGTH = 1024
_SENTENCE = re.compile(r"[.!?]['\")\]]?(?=\s)|\n\n")


def describe_operation(summary: object, description: object) -> tuple[str, str | None]:
    """Summary and description as one text, and the full text if that had to be truncated."""
    first = summary.strip() if isinstance(summary, str) else ""
    second = description.strip() if isinstance(description, str) else ""
    if not first or not second or second.startswith(first):
        whole = second or first
    else:
        whole = f"{first}\n\n{second}"
    if len(whole) <= MAX_LENGTH:
        return whole, None
    return _cut_text(whole), whole


def _cut_text(text: str) -> str:
    room = text[: MAX_LENGTH - 1]
    ends = [match.end() for match in _SENTENCE.finditer(room)]
    if ends and ends[-1] > MAX_LENGTH // 3:
        return room[: ends[-1]].rstrip() + " …"
    return (room[:-1].rpartition(" ")[0] or room[:-1]).rstrip() + " …"
