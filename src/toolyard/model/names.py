"""Tool names: qualify, split, validate, match by glob, suggest corrections.

Names appear in prompts, URLs, logs and access rules, so registration rejects any character that could make two
names look alike on a screen.
"""

from __future__ import annotations

import difflib
import fnmatch
import heapq
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from toolyard.constants import MAX_NAME_LENGTH, TOOL_NAMESPACE_SEP
from toolyard.model.errors import ConfigError, InvalidNameError

_PLAIN = re.compile(rf"[A-Za-z0-9_.\-/]{{1,{MAX_NAME_LENGTH}}}")

# Zero-width and bidirectional controls are in category Cf; these characters are invisible, but in other categories.
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5") | {
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xE0100, 0xE01F0)),
}
_LIKE_COLONS = frozenset("\ua789\u02d0\u2236\ufe13\ufe30\u05c3")
_SHOWN = 200
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# Scripts with letters that look alike. Han, Kana, Hangul, Arabic, ... may be mixed with Latin.
_LOOK_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET"})


def qualify(namespace: str, name: str) -> str:
    """`namespace::name`."""
    return f"{namespace}{TOOL_NAMESPACE_SEP}{name}"


def split_qualified(qualified: str) -> tuple[str, str]:
    """Namespace and name of a qualified name; `InvalidNameError` if the separator is missing."""
    namespace, sep, name = qualified.partition(TOOL_NAMESPACE_SEP)
    if not sep:
        raise InvalidNameError(f"{show(qualified)} is not a qualified name; write namespace{TOOL_NAMESPACE_SEP}tool")
    return namespace, name


def show(name: object) -> str:
    """A name quoted for an error message, with invisible and non-ASCII characters escaped."""
    if isinstance(name, str) and len(name) > _SHOWN:
        return f"{name[:_SHOWN]!a}... ({len(name):,} characters)"
    return ascii(name) if isinstance(name, str) else f"{type(name).__name__} {ascii(name)[:80]}"


def check_namespace(namespace: object) -> None:
    """Raise `InvalidNameError` unless `namespace` may qualify a tool."""
    if not isinstance(namespace, str):  # it may not be hashable either
        _check_grammar(namespace, "namespace")
    _check_namespace(namespace)


@lru_cache(maxsize=1024)
def _check_namespace(namespace: object) -> None:
    if type(namespace) is str and _PLAIN.fullmatch(namespace):
        return
    _check_grammar(namespace, "namespace")


def check_tool_name(name: object) -> None:
    """Raise `InvalidNameError` unless `name` may name a tool."""
    if type(name) is str and _PLAIN.fullmatch(name):
        return
    _check_grammar(name, "tool name")
    if str(name).endswith(":invoke"):
        raise InvalidNameError(f"tool name {show(name)} may not end in ':invoke'; the HTTP wire uses that suffix")


def _check_grammar(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise InvalidNameError(f"{what} must be text, not {show(name)}")
    problem = _find_problem(name)
    if problem:
        raise InvalidNameError(f"{what} {show(name[: MAX_NAME_LENGTH + 16])} {problem}")


def _find_problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed"
    if TOOL_NAMESPACE_SEP in name:
        return f"may not contain {TOOL_NAMESPACE_SEP!r}"
    if name[0].isspace() or name[-1].isspace():
        return "may not begin or end with a space"
    if name[0] == ":" or name[-1] == ":":
        return "may not begin or end with a colon"
    for char in name:
        if char in INVISIBLE or unicodedata.category(char) in _HIDDEN_CATEGORIES:
            return f"contains the invisible or control character {char!a}"
        if char.isspace() and char != " ":
            return f"contains the white space {char!a}; only the plain space is allowed"
    if not unicodedata.is_normalized("NFC", name):
        return f"is not in Unicode normal form C; write {unicodedata.normalize('NFC', name)!a}"
    return find_mixed_scripts(name)


def find_mixed_scripts(name: str) -> str | None:
    """The error text for a name that mixes scripts with look-alike letters; None for a good name."""
    scripts: dict[str, str] = {}
    for char in name:
        if char.isascii():
            if char.isalpha():
                scripts.setdefault("LATIN", char)
            continue
        folded = ":" if char in _LIKE_COLONS else unicodedata.normalize("NFKC", char)
        if folded.isascii():
            return f"contains {char!a}, which looks like {folded!r}"
        if char.isalpha():
            words = unicodedata.name(char, "").split()
            scripts.setdefault(words[0] if words else "?", char)
    mixed = sorted(_LOOK_ALIKE & scripts.keys())
    if len(mixed) > 1:
        letters = ", ".join(f"{scripts[s]!a} ({s.title()})" for s in mixed)
        return f"mixes scripts whose letters look alike: {letters}"
    return None


_LATIN_LOOK_ALIKES = (
    # Cyrillic, Greek, Armenian, Coptic, Latin
    (
        "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043a\u04cf\u043c\u043d\u043e\u0440\u051b\u0433\u0455\u0442",
        "acdehijklmhopqrst",
    ),
    ("\u0443\u04af\u0475\u051d\u0445\u044c\u0432\u043f\u0438\u0437\u0431", "yyvwxbbnu36"),
    (
        "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u03c7\u03c9\u03bc\u03b6",
        "abyenikvopotuxwuz",
    ),
    ("\u0561\u0563\u0566\u0570\u0575\u0578\u057d\u057c\u0585\u0581\u0584\u056c\u057e\u0574", "wqqhjnunogplum"),
    ("\u2c81\u2c89\u2c93\u2c95\u2c99\u2c9b\u2c9f\u2ca3\u2ca5\u2ca7\u2ca9\u2cad", "aeikmnopctyx"),
    ("\u0261\u0131\u0251\u0269", "giai"),
    # Cherokee and Lisu: casefold yields capitals
    (
        "\u13aa\u13a0\u13a1\u13a2\u13a5\u13ab\u13ac\u13b3\u13b7\u13bb\u13c0\u13c3\u13d2\u13d9\u13da\u13de\u13df\u13e2\u13e6\u13f4",
        "adrtijewmhgzrvslcpkb",
    ),
    (
        "\ua4ee\ua4d0\ua4da\ua4d3\ua4f0\ua4dd\ua4d6\ua4e7\ua4f2\ua4d9\ua4d7\ua4e1\ua4df\ua4e0\ua4f3\ua4d1\ua4e3\ua4e2\ua4d4\ua4f4\ua4e6\ua4ea\ua4eb\ua4ec\ua4dc",
        "abcdefghijklmnoprstuvwxyz",
    ),
)
_TO_LATIN = {ord(char): twin for chars, twins in _LATIN_LOOK_ALIKES for char, twin in zip(chars, twins, strict=True)}


def fold_look_alikes(name: str) -> str:
    """The name in the Latin letters it resembles; equal for names that people cannot tell apart."""
    return name.casefold() if name.isascii() else name.casefold().translate(_TO_LATIN)


_REACHES_A_TOOL = re.compile(r"::|[*?\[]")


def check_tool_glob(glob: str, where: str) -> str:
    """Return the glob; `ConfigError` if no qualified name can match it, as in a deny rule that never applies."""
    if not _REACHES_A_TOOL.search(glob):
        raise ConfigError(f"{where}: {glob!r} matches no tool; write 'namespace::{glob}', or '*::{glob}' for any")
    return glob


ToolGlob = Annotated[
    str,
    Meta(
        min_length=1,
        extra_json_schema={
            "type": "string",
            "pattern": _REACHES_A_TOOL.pattern,
            "description": "Glob of qualified names, case-sensitive; `*` crosses `::` as well.",
        },
        extra={"check": check_tool_glob},
    ),
]
ToolGlobs = Annotated[tuple[ToolGlob, ...], Meta(min_length=1, extra={"one": True})]
"""One or more globs; an empty list is rejected as a mistake."""


def glob_matcher(globs: Sequence[str]) -> Callable[[str], object]:
    """A compiled predicate, truthy for text that one of the globs matches in full."""
    if "*" in globs:
        return lambda _text: True
    return re.compile("|".join(map(fnmatch.translate, globs))).match


def describe_idle(
    where: str, patterns: Iterable[str] | None, known: Collection[str], what: str = "tool", *, exact: bool = False
) -> Iterator[str]:
    """For each pattern that matches nothing known: so, and what may be meant. `exact` patterns are no globs."""
    for pattern in patterns or ():
        if pattern not in known and (exact or not any(map(glob_matcher([pattern]), known))):
            sep = TOOL_NAMESPACE_SEP
            namespaces = {f"{name.partition(sep)[0]}{sep}*" for name in known if sep in name}
            near = find_similar(pattern, known if exact else sorted({*known, *namespaces}))
            yield f"{where}: {pattern} matches no {what}{f'; did you mean {near[0]}?' if near else ''}"


_COMPARED = 500
"""Tool names compared in full, preselected by shared trigrams; all names of a large catalog take seconds."""
_COMPARED_LENGTH = 200


def find_similar(name: object, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known words most similar to a misspelt one, best first; only the beginning of a very long one counts."""
    wanted = str(name)[:_COMPARED_LENGTH]
    return difflib.get_close_matches(wanted, _preselect(wanted, known), n=count, cutoff=cutoff)


def _preselect(wanted: str, known: Iterable[str]) -> list[str]:
    pool = list(known)
    if len(pool) <= _COMPARED:
        return pool
    pieces = {wanted[at : at + 3].lower() for at in range(max(1, len(wanted) - 2))}
    return heapq.nlargest(_COMPARED, pool, key=lambda word: sum(map(word.lower().__contains__, pieces)))


def suggest(name: object, known: Iterable[str], otherwise: str = "known: ") -> str:
    """The end of an error about an unknown name: the nearest known name, or `otherwise` and all known names."""
    names = list(known)
    near = find_similar(name, names)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise}{', '.join(names) or 'none'}"


def find_similar_tools(name: str, names: Iterable[str], *, count: int = 3) -> list[str]:
    """The known qualified names most similar to a misspelt name, qualified or bare; best first."""
    wanted = name[:_COMPARED_LENGTH].lower()
    spelt: dict[str, list[str]] = {}
    for known in _preselect(wanted, names):
        for spelling in (known, known.rpartition(TOOL_NAMESPACE_SEP)[2], known.replace(TOOL_NAMESPACE_SEP, "__")):
            spelt.setdefault(spelling.lower(), []).append(known)
    same_bare_name = spelt.get(wanted.rpartition(TOOL_NAMESPACE_SEP)[2], [])
    near = find_similar(wanted, spelt, count=count)
    return list(dict.fromkeys([*same_bare_name, *(known for match in near for known in spelt[match])]))[:count]
