"""Replace `${VAR}` in configs, and in paths and addresses passed from code, by environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from toolyard.model.errors import ConfigError

VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`${NAME}`, `${NAME:-default}`, and `${env:NAME}`, which other programs use."""
OnVariable = Callable[[str, str, bool], None]


def expand(
    value: Any,
    *,
    where: str = "config",
    env: Mapping[str, str] | None = None,
    found: OnVariable | None = None,
    whole: Callable[[str], Any] = str,
) -> Any:
    """The value with variables replaced in every text inside; `ConfigError` for an unset one without default.

    `found` is called with the name of each variable, its value, and whether that is the default. `whole` converts
    a text that consisted of one variable only.
    """
    env = os.environ if env is None else env
    if isinstance(value, str):
        if "${" in VARIABLE.sub("", value):
            raise ConfigError(f"{where}: '${{' without a variable; write ${{NAME}} or ${{NAME:-default}}")
        text = VARIABLE.sub(lambda match: _replace_variable(match, where, env, found), value)
        return whole(text) if VARIABLE.fullmatch(value) else text
    options: dict[str, Any] = {"env": env, "found": found, "whole": whole}
    if isinstance(value, dict):
        return {key: expand(item, where=f"{where}.{key}", **options) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, where=f"{where}[{index}]", **options) for index, item in enumerate(value)]
    return value


Place = TypeVar("Place", bound=str | Path)


def expand_place(place: Place, option: str) -> Place:
    """A path or address passed from code, with variables replaced as in a config."""
    text = str(place)
    return type(place)(expand(text, where=option)) if "${" in text else place


def _replace_variable(match: re.Match[str], where: str, env: Mapping[str, str], found: OnVariable | None) -> str:
    name, default = match.group(1), match.group(2)
    value = env.get(name, default)
    if value is None:
        raise ConfigError(f"{where}: the variable {name} is not set; export it or write ${{{name}:-default}}")
    if found is not None:
        found(name, value, name not in env)
    return value
