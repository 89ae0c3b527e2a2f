"""`LMConfig`: the block `lm_config`, read strictly."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from typing_extensions import TypedDict

from toolyard.model.errors import CallError, ConfigError
from toolyard.model.json_words import json_type

Format = Literal["json_schema", "json_object", "text"]

PROVIDERS = ("openai", "ollama", "anthropic", "llama")
_FORMATS = ("json_schema", "json_object", "text")
_HOMES = {
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434",
    "anthropic": "https://api.anthropic.com",
}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SECRET = 6
"""Characters from which a header's value is worth hiding."""
_ONLY_ON_A_WIRE = ("base_url", "api_key", "headers", "verify", "ca")


class Prices(TypedDict, total=False):
    """Money for a million tokens."""

    prompt: float
    completion: float


class LMOptions(TypedDict, total=False):
    """The keys of `lm_config` and what they hold, for config files and type checkers."""

    type: str
    model_id_or_path: str
    base_url: str
    api_key: str
    headers: dict[str, str]
    verify: bool
    ca: str
    timeout: float
    retries: int
    max_concurrent: int
    requests_per_minute: int
    tokens_per_minute: int
    prices: Prices
    journal: str
    response_format: Format
    strict: bool
    temperature: float
    max_tokens: int
    seed: int
    extra: dict[str, Any]


class LMConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which model to ask, where, and within which limits; make one by `read_lm_config`, which checks it."""

    type: str
    model: str
    base_url: str = ""
    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    verify: bool | str = True
    timeout: float = 120.0
    """Seconds one request may take."""
    retries: int = 4
    max_concurrent: int = 100
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    prices: tuple[float, float] = (0.0, 0.0)
    """Money for a million tokens, of prompt and of completion."""
    journal: str | None = None
    response_format: Format = "json_schema"
    """The most that the server can be held to."""
    strict: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: dict[str, Any] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere."""
        told = tuple(value for _, value in self.headers if len(value) >= _SECRET)
        return told if self.api_key is None else (self.api_key, *told)

    def __repr__(self) -> str:
        return f"<LMConfig {self.type} {self.model}>"


def read_lm_config(block: Any, where: str = "lm_config") -> LMConfig:
    """The block as a config; `ConfigError` says which key is wrong, and shows no secret."""
    if not isinstance(block, Mapping):
        raise ConfigError(f"{where}: must be a mapping, not {json_type(block)}")
    known = tuple(LMOptions.__annotations__)
    for key in block:
        if key not in known:
            # `model` and `url` are what most other libraries call these.
            near = difflib.get_close_matches(str(key), known, n=1) or [name for name in known if str(key) in name]
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
    kind = _one_of(block.get("type"), (*PROVIDERS, "schema"), f"{where}.type")
    if kind == "schema":
        raise ConfigError(f"{where}.type: 'schema' needs no model, so there is none to ask")
    _check_fitting(block, kind, where)
    read = _Reader(block, where)
    fields = {
        "type": kind,
        "model": read.text("model_id_or_path", required=kind != "llama") or "",
        "base_url": "" if kind == "llama" else _base_url(read.text("base_url") or _HOMES[kind], kind, where),
        "api_key": _api_key(read.text("api_key"), where),
        "headers": _headers(block.get("headers"), f"{where}.headers"),
        "verify": _verify(read, where),
        "prices": _prices(block.get("prices"), f"{where}.prices"),
        "journal": read.text("journal"),
        "response_format": _one_of(block.get("response_format", "json_schema"), _FORMATS, f"{where}.response_format"),
        "strict": read.flag("strict", False),
        "timeout": read.number("timeout", above=0.0),
        "temperature": read.number("temperature"),
        "extra": read.mapping("extra"),
    }
    least = {"retries": 0, "max_concurrent": 1, "requests_per_minute": 1, "tokens_per_minute": 1, "max_tokens": 1}
    fields |= {key: read.whole(key, at_least) for key, at_least in least.items()}
    fields["seed"] = read.whole("seed", None)
    return LMConfig(**{key: value for key, value in fields.items() if value is not None})


def _check_fitting(block: Mapping[str, Any], kind: str, where: str) -> None:
    """Refuse what this provider would ignore."""
    unused = [key for key in _ONLY_ON_A_WIRE if kind == "llama" and key in block]
    if kind == "anthropic" and "seed" in block:
        unused.append("seed")
    if kind != "openai" and "strict" in block:
        unused.append("strict")
    if unused:
        raise ConfigError(f"{where}.{unused[0]}: the provider {kind!r} has no use for it; remove it")


class _Reader:
    def __init__(self, block: Mapping[str, Any], where: str) -> None:
        self._block = block
        self._where = where

    def text(self, key: str, *, required: bool = False) -> str | None:
        value = self._block.get(key)
        if value is None and not required:
            return None
        if value is None:
            raise ConfigError(f"{self._where}: needs {key!r}")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self._where}.{key}: must be text, not {'empty' if value == '' else json_type(value)}")
        return str(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._block.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self._where}.{key}: must be true or false, not {json_type(value)}")
        return value

    def number(self, key: str, *, above: float | None = None) -> float | None:
        value = self._block.get(key)
        if value is None:
            return None
        good = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value) and value >= 0
        if not good or (above is not None and value <= above):
            raise ConfigError(f"{self._where}.{key}: must be a number{'' if above is None else ' above 0'}")
        return float(value)

    def whole(self, key: str, least: int | None) -> int | None:
        value = self._block.get(key)
        if value is None:
            return None
        if type(value) is not int or (least is not None and value < least):
            limit = "" if least is None else f" of at least {least}"
            raise ConfigError(f"{self._where}.{key}: must be a whole number{limit}, not {json_type(value)}")
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        value = self._block.get(key, {})
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self._where}.{key}: must be a mapping, not {json_type(value)}")
        return dict(value)


def _one_of(value: Any, known: tuple[str, ...], where: str) -> Any:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
        raise ConfigError(f"{where}: must be {hint}" if value is None else f"{where}: not {value!r}; {hint}")
    return value


def _base_url(value: str, kind: str, where: str) -> str:
    from toolyard.links.urls import read_url

    try:
        target = read_url(value)
    except CallError as error:
        raise ConfigError(f"{where}.base_url: {error}") from None
    if "?" in target.path:
        raise ConfigError(f"{where}.base_url: ends with its path; remove what follows '?'")
    bare = target.url.rstrip("/")
    # Whoever names only the machine means the place where all these servers have it.
    return f"{bare}/v1" if kind == "openai" and target.path == "/" else bare


def _api_key(value: str | None, where: str) -> str | None:
    if value is not None and not _FIELD.fullmatch(value):
        raise ConfigError(f"{where}.api_key: must be text that fits into a header: ASCII, no line breaks")
    return value


def _headers(value: Any, where: str) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: must be a mapping, not {json_type(value)}")
    for name, text in value.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError(f"{where}: {name!r} is no name of a header")
        if not isinstance(text, str) or not _FIELD.fullmatch(text):
            raise ConfigError(f"{where}.{name}: must be text that fits into a header: ASCII, no line breaks")
    return tuple((str(name).lower(), str(text)) for name, text in value.items())


def _verify(read: _Reader, where: str) -> bool | str:
    verify, ca = read.flag("verify", True), read.text("ca")
    if ca is not None and not verify:
        raise ConfigError(f"{where}: ca says whom to trust, and verify: false to trust anybody; give one of them")
    return verify if ca is None else ca


def _prices(value: Any, where: str) -> tuple[float, float]:
    if value is None:
        return 0.0, 0.0
    if not isinstance(value, Mapping) or not value.keys() <= {"prompt", "completion"}:
        raise ConfigError(f"{where}: must be a mapping of prompt and completion to money for a million tokens")
    read = _Reader(value, where)
    return read.number("prompt") or 0.0, read.number("completion") or 0.0
