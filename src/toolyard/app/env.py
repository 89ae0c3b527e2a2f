"""`${VAR}` and `${VAR:-default}` in config text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from toolyard.model.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

Found = Callable[[str, str], None]


def expand(
    value: Any, *, where: str = "config", env: Mapping[str, str] | None = None, found: Found | None = None
) -> Any:
    """The value with variables replaced in every text inside; an unset one without default is an error.

    `found` is told each variable and what it stood for.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in _VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        return _VARIABLE.sub(lambda match: _value(match, where, env, found), value)
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", env=env, found=found) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", env=env, found=found) for index, item in enumerate(value)]
    return value


def _value(match: re.Match[str], where: str, env: Mapping[str, str], found: Found | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value)
    return value
