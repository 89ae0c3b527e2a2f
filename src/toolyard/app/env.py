"""`${VAR}` and `${VAR:-default}` in config text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from toolyard.model.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(value: Any, *, where: str = "config", env: Mapping[str, str] | None = None) -> Any:
    """The value with variables replaced in every text inside; an unset one without default is an error."""
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in _VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        return _VARIABLE.sub(lambda match: _value(match, where, env), value)
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", env=env) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", env=env) for index, item in enumerate(value)]
    return value


def _value(match: re.Match[str], where: str, env: Mapping[str, str]) -> str:
    name, default = match.group(1), match.group(2)
    if name in env:
        return env[name]
    if default is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    return default
