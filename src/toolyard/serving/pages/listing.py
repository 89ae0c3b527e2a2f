"""The registry as the page shows it: by namespace, searched, a hundred at a time, and only what a key may list."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import msgspec

from toolyard.model.json_words import closest
from toolyard.model.tool import Tool
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.identity import Scopes

PAGE_SIZE = 100
_MAX_WORDS = 10


class PageEntry(msgspec.Struct, frozen=True):
    """One name with its overloads."""

    name: str
    tools: tuple[Tool, ...]
    haystack: str

    @property
    def tool(self) -> Tool:
        """The first overload, which speaks for all of them in a list."""
        return self.tools[0]


class NamespaceGroup(msgspec.Struct, frozen=True):
    """Entries of one namespace that stand together in a list."""

    namespace: str
    entries: list[PageEntry]


class CatalogPage(msgspec.Struct, frozen=True):
    """One page of what was asked for."""

    groups: list[NamespaceGroup]
    namespaces: list[tuple[str, int]]
    """Every namespace that may be seen, with how many of its names fit the search."""
    found: int
    total: int
    page: int
    pages: int


_Index = dict[str, list[PageEntry]]
_indexes: WeakKeyDictionary[Snapshot, _Index] = WeakKeyDictionary()


def browse(snapshot: Snapshot, scopes: Scopes, query: str, namespace: str, page: int) -> CatalogPage:
    """Names that hold every word of the query in their name, description or tags."""
    index = _index(snapshot)
    words = query.lower().split()[:_MAX_WORDS]
    visible = {name: entries for name, entries in index.items() if scopes.allows("list", name)}
    fitting = {name: [one for one in entries if _fits(one, words)] for name, entries in visible.items()}
    chosen = fitting if not namespace else {namespace: fitting.get(namespace, [])}
    flat = [entry for entries in chosen.values() for entry in entries]
    pages = max(1, -(-len(flat) // PAGE_SIZE))
    page = min(max(page, 1), pages)
    return CatalogPage(
        _grouped(flat[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        [(name, len(entries)) for name, entries in fitting.items()],
        len(flat),
        sum(map(len, visible.values())),
        page,
        pages,
    )


def overloads(snapshot: Snapshot, scopes: Scopes, name: str) -> list[Tool]:
    """Every overload of a name, alias or unmistakable bare name; empty for one that may not be seen."""
    found = snapshot.get(name)
    if not found:
        homes = [home for home in snapshot.bare_names.get(name, ()) if _may_see(snapshot, scopes, home)]
        found = snapshot.get(homes[0]) if len(homes) == 1 else []
    return found if found and scopes.allows("list", found[0].namespace) else []


def near(snapshot: Snapshot, scopes: Scopes, name: str) -> list[str]:
    """Names that may have been meant, among those that may be seen."""
    index = _index(snapshot)
    visible = [one.name for key, entries in index.items() if scopes.allows("list", key) for one in entries]
    return closest(name, visible)


def _may_see(snapshot: Snapshot, scopes: Scopes, name: str) -> bool:
    return scopes.allows("list", snapshot.names[name][0].tool.namespace)


def _index(snapshot: Snapshot) -> _Index:
    found = _indexes.get(snapshot)
    if found is None:
        found = {}
        for name, candidates in snapshot.names.items():
            tools = tuple(candidate.tool for candidate in candidates)
            found.setdefault(tools[0].namespace, []).append(PageEntry(name, tools, _haystack(name, tools)))
        _indexes[snapshot] = found
    return found


def _haystack(name: str, tools: Sequence[Tool]) -> str:
    return "\n".join(
        [name, *(part for tool in tools for part in (tool.description, *tool.tags, *tool.aliases))]
    ).lower()


def _fits(entry: PageEntry, words: list[str]) -> bool:
    return all(word in entry.haystack for word in words)


def _grouped(entries: list[PageEntry]) -> list[NamespaceGroup]:
    groups: list[NamespaceGroup] = []
    for entry in entries:
        if not groups or groups[-1].namespace != entry.tool.namespace:
            groups.append(NamespaceGroup(entry.tool.namespace, []))
        groups[-1].entries.append(entry)
    return groups
