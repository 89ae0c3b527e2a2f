"""`WorkerSettings` from the options of a script source; what is wrong with one is said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolyard.model.errors import ConfigError
from toolyard.model.json_words import json_type

if TYPE_CHECKING:
    from toolyard.links.workers import WorkerSettings

MIB = 1024 * 1024
_CHOICES = {
    "isolation": ("process", "inprocess"),
    "sandbox": ("auto", "bwrap", "landlock", "rlimits"),
    "imports": ("site", "stdlib"),
}
_COUNTS = (
    *("workers", "memory_bytes", "cpu_seconds", "files", "processes", "file_bytes"),
    *("max_output_bytes", "max_answer_bytes", "calls_per_worker"),
)
_MAY_BE_NONE = ("cpu_seconds",)


def read_settings(options: Mapping[str, Any]) -> WorkerSettings:
    """How workers are to be made."""
    from toolyard.links.workers import WorkerSettings

    for name in _COUNTS:
        value = options[name]
        if value is None and name in _MAY_BE_NONE:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, not {value!r}")
    uid = options["uid"]
    if uid is not None and (isinstance(uid, bool) or not isinstance(uid, int) or uid < 1):
        raise ConfigError(f"uid must be the number of a user that is not root, not {uid!r}")
    for name in ("sandbox", "imports"):
        read_choice(name, options[name])
    return WorkerSettings(**{**options, "env": read_names(options["env"])})


def read_choice(name: str, value: Any) -> Any:
    """The value, if it is one of those the option has."""
    if value not in _CHOICES[name]:
        raise ConfigError(f"{name} must be one of {', '.join(_CHOICES[name])}; not {value!r}")
    return value


def read_names(value: Any) -> tuple[str, ...]:
    """Names of environment variables. Values are never given here, so that they are nowhere to be seen."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        kind = "one text" if isinstance(value, str) else json_type(value)
        raise ConfigError(f"env must be a list of names of environment variables, not {kind}")
    for name in value:
        if not name or "=" in name or "\0" in name:
            raise ConfigError(f"env: {name.partition('=')[0]!r} must be a name alone; its value is taken from ours")
    return tuple(dict.fromkeys(value))


def read_flag(name: str, value: Any) -> bool:
    """True or False, and nothing that only looks like it."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return value


def read_seconds(name: str, value: Any) -> float:
    """A number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{name} must be a number above 0, not {value!r}")
    return float(value)
