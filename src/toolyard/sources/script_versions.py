"""What script files gave, version by version, and who keeps a name that two of them want."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolyard.model.report import Rewrite
from toolyard.registry.candidate import Candidate


class Version:
    """What one file gave, with these bytes."""

    __slots__ = ("candidates", "faults", "rewrites", "sha256", "whole")

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        self.candidates: list[Candidate] = []
        self.rewrites: list[Rewrite] = []
        self.faults: list[tuple[Exception, str | None]] = []
        self.whole = self
        """The same with every tool, if some are left out here because their names are taken."""

    def replaces(self, old: Version | None) -> bool:
        """False if it would put something broken in the place of something that works."""
        if old is None or not old.candidates or not self.faults:
            return True
        return bool(old.faults) and bool(self.candidates)

    def reduced(self, candidates: list[Candidate]) -> Version:
        """With these tools only."""
        if len(candidates) == len(self.candidates):
            return self
        made = Version(self.sha256)
        made.candidates, made.rewrites, made.faults, made.whole = candidates, self.rewrites, self.faults, self.whole
        return made


class Collision(msgspec.Struct, frozen=True):
    """A tool that is left out because one of its names is taken."""

    file: str
    tool: str
    problem: str
    stale: bool = False
    """Whether the file's last good version is served instead."""


def settle(chosen: Mapping[str, Version], before: Mapping[str, Version]) -> tuple[dict[str, Version], list[Collision]]:
    """What is served of each file, with no name twice.

    What was served before keeps its names. A file whose edit wants one of them keeps its last version too; one that
    has none loses the tool. Among files that are new the first has the name, and an alias gives way to a name.
    """
    versions = dict(chosen)
    found: list[Collision] = []
    while True:
        kept, refused = _claimed(versions, before)
        edited = {item.file for item in refused if _has_other(before.get(item.file), versions[item.file])}
        if not edited:
            break
        # One at a time: with its last version back, what the others want may be free, or taken.
        file = next(item.file for item in refused if item.file in edited)
        found += [msgspec.structs.replace(item, stale=True) for item in refused if item.file == file]
        versions[file] = before[file]
    return {file: version.reduced(kept[file]) for file, version in versions.items()}, [*found, *refused]


def _has_other(old: Version | None, new: Version) -> bool:
    return old is not None and bool(old.candidates) and old.sha256 != new.sha256


def _claimed(
    versions: Mapping[str, Version], before: Mapping[str, Version]
) -> tuple[dict[str, list[Candidate]], list[Collision]]:
    """The tools of each file that have their names, and those that have not."""
    owners: dict[str, str] = {}
    refused: list[Collision] = []
    served: set[int] = set()
    rest: list[tuple[str, Candidate]] = []
    for file, version in versions.items():
        old = before.get(file)
        names = {item.tool.name for item in old.candidates} if old and old.sha256 == version.sha256 else set()
        for item in version.candidates:
            if item.tool.name in names:
                owners |= dict.fromkeys((item.tool.name, *item.tool.aliases), file)
                served.add(id(item))
            else:
                rest.append((file, item))
    named: list[tuple[str, Candidate]] = []
    for file, item in rest:
        name = item.tool.name
        if name in owners:
            problem = f"duplicate tool: {name!r} is declared by {owners[name]} and by {file}"
            refused.append(Collision(file, name, problem))
        else:
            owners[name] = file
            named.append((file, item))
    for file, item in named:
        tool = item.tool
        taken = next((alias for alias in tool.aliases if alias in owners), None)
        if taken is None:
            owners |= dict.fromkeys(tool.aliases, file)
            served.add(id(item))
        else:
            problem = f"duplicate tool: alias {taken!r} of {tool.name!r} in {file} is also declared by {owners[taken]}"
            refused.append(Collision(file, tool.name, problem))
    kept = {file: [item for item in version.candidates if id(item) in served] for file, version in versions.items()}
    return kept, refused
