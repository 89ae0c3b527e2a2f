"""`${VAR}` and `${VAR:-default}` in config text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from toolyard.model.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

Found = Callable[[str, str, bool], None]


def expand(
    value: Any,
    *,
    where: str = "config",
    env: Mapping[str, str] | None = None,
    found: Found | None = None,
    whole: Callable[[str], Any] = str,
) -> Any:
    """The value with variables replaced in every text inside; an unset one without default is an error.

    `found` is told each variable, what it stood for, and whether that is its default. `whole` makes something
    of a text that was one variable and nothing else.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in _VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        text = _VARIABLE.sub(lambda match: _replace_variable(match, where, env, found), value)
        return whole(text) if _VARIABLE.fullmatch(value) else text
    options: dict[str, Any] = {"env": env, "found": found, "whole": whole}
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", **options) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", **options) for index, item in enumerate(value)]
    return value


def find_defaults(value: Any) -> set[str]:
    """Every default that variables have in a config, wherever they stand."""
    if isinstance(value, str):
        return {match[2] for match in _VARIABLE.finditer(value) if match[2]}
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {default for item in items for default in find_defaults(item)}


def _replace_variable(match: re.Match[str], where: str, env: Mapping[str, str], found: Found | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value, name not in env)
    return value
