"""Which operations of a document become tools: `include` and `exclude` by tag, path, method and operationId."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from toolyard.model.errors import ConfigError

_KEYS = ("tags", "paths", "methods", "operations")

Rule = Mapping[str, Sequence[str] | str]


class Selection:
    """Rules of the operator. Within a rule every key must fit, and of a key's patterns one.

    `include={"tags": ["pets"], "methods": ["GET"]}` takes what has the tag and the method; a list of rules takes
    what any of them fits. Patterns are shell-like (`/pets/*`, `get*`) and, but for methods, sensitive to case.
    """

    def __init__(self, include: Any = None, exclude: Any = None) -> None:
        self._include = _read_rules("include", include)
        self._exclude = _read_rules("exclude", exclude)

    @property
    def takes_all(self) -> bool:
        """True without any rule."""
        return not self._include and not self._exclude

    def takes(self, method: str, path: str, operation: Mapping[str, Any]) -> bool:
        """Whether the operation is wanted."""
        if self.takes_all:
            return True
        tags = operation.get("tags")
        facts = {
            "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
            "paths": [path],
            "methods": [method.upper()],
            "operations": [str(operation.get("operationId", ""))],
        }
        wanted = not self._include or any(_rule_fits(rule, facts) for rule in self._include)
        return wanted and not any(_rule_fits(rule, facts) for rule in self._exclude)


def _rule_fits(rule: Mapping[str, tuple[str, ...]], facts: Mapping[str, list[str]]) -> bool:
    return all(
        any(fnmatchcase(fact, pattern) for fact in facts[key] for pattern in patterns) for key, patterns in rule.items()
    )


def _read_rules(option: str, given: Any) -> list[dict[str, tuple[str, ...]]]:
    if given is None:
        return []
    rules = given if isinstance(given, (list, tuple)) else [given]
    return [_read_rule(option, rule) for rule in rules]


def _read_rule(option: str, rule: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(rule, Mapping) or not rule:
        raise ConfigError(f"{option} takes a mapping with some of {', '.join(_KEYS)}, or a list of such mappings")
    found: dict[str, tuple[str, ...]] = {}
    for key, patterns in rule.items():
        if key not in _KEYS:
            raise ConfigError(f"{option} knows no {key!r}; use {', '.join(_KEYS)}")
        texts = [patterns] if isinstance(patterns, str) else list(patterns or ())
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{key!r} of {option} takes a pattern or a list of patterns")
        found[key] = tuple(text.upper() if key == "methods" else text for text in texts)
    return found
