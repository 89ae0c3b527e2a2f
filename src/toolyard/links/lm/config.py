"""`LMConfig`: the `lm_config` block of a config, strictly validated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from typing_extensions import TypedDict

from toolyard.links.http.addresses import read_base_url, read_url
from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar
from toolyard.schema.common_options import HEADER_TEXT, check_headers, read_trust
from toolyard.schema.options import Text, check_keys, locate_file, option_type, read_value
from toolyard.words.redactor import find_credentials

Format = Literal["json_schema", "json_object", "text"]

_GGUF = ".gguf"
"""The file name suffix of local models."""
_BASE_URLS = {
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434",
    "anthropic": "https://api.anthropic.com",
}
_MIN_SECRET = 6
"""Shortest header value, in characters, that is treated as a secret."""
_ONLY_OVER_HTTP = ("base_url", "api_key", "headers", "verify", "ca")


class Prices(TypedDict, total=False):
    """Price per million tokens, in any currency."""

    prompt: Annotated[float | None, Meta(ge=0, description="Price of prompt tokens.")]
    completion: Annotated[float | None, Meta(ge=0, description="Price of completion tokens.")]


def _locate_model(value: Any, base: Path) -> Any:
    return locate_file(value, base) if str(value).endswith(_GGUF) else value


def _check_field(value: str | None, where: str) -> str | None:
    if value is not None and not HEADER_TEXT.fullmatch(value):
        raise ConfigError(f"{where}: must be text that fits into a header: ASCII, no line breaks")
    return value


class WorldOptions(TypedDict, total=False):
    """The initial contents of a simulated session."""

    seed: Annotated[int | str, Meta(description="Seed of the entities; by default that of the simulator.")]
    entities: Annotated[int, Meta(ge=0, le=1000, description="Number of entities of each kind.")]


class LMOptions(TypedDict, total=False):
    """The keys of `lm_config` and their types, for config files and type checkers."""

    type: Annotated[Text, Meta(description="Provider: openai, ollama, anthropic or llama; schema for no model.")]
    model_id_or_path: Annotated[
        Text | None, Meta(description="Id of the model, or path of its .gguf file.", extra={"locate": _locate_model})
    ]
    base_url: Annotated[Text | None, Meta(description="URL of the server; by default that of the provider.")]
    api_key: Annotated[
        Text | None, Meta(description="API key of the server; use ${VARIABLES}.", extra={"check": _check_field})
    ]
    headers: Annotated[
        dict[str, str] | None, Meta(description="Headers of every request.", extra={"check": check_headers})
    ]
    verify: Annotated[bool, Meta(description="Verify the server's certificate.")]
    ca: Annotated[
        Text | None, Meta(description="File with the certificate authorities to trust.", extra={"locate": locate_file})
    ]
    timeout: Annotated[float | None, Meta(gt=0, description="Timeout of a request in seconds.")]
    retries: Annotated[int | None, Meta(ge=0, description="Number of retries.")]
    max_concurrent: Annotated[int | None, Meta(ge=1, description="Concurrent requests.")]
    requests_per_minute: Annotated[int | None, Meta(ge=1, description="Maximum requests per minute.")]
    tokens_per_minute: Annotated[int | None, Meta(ge=1, description="Maximum tokens per minute.")]
    prices: Annotated[Prices | None, Meta(description="Prices per million tokens, for the usage report.")]
    journal: Annotated[
        Text | None,
        Meta(description="File that stores every answer, for identical requests.", extra={"locate": locate_file}),
    ]
    response_format: Annotated[Format, Meta(description="Strictest response format that the server supports.")]
    strict: Annotated[bool, Meta(description="Use OpenAI's strict mode for the response schema.")]
    temperature: Annotated[float | None, Meta(ge=0, description="Sampling temperature.")]
    max_tokens: Annotated[int | None, Meta(ge=1, description="Maximum tokens of an answer.")]
    seed: Annotated[int | None, Meta(description="Seed for reproducible answers, if the server supports it.")]
    stateful: Annotated[bool, Meta(description="For schema: remember what the calls of a session create.")]
    world: Annotated[
        WorldOptions | None,
        Meta(
            description="For schema: entities that exist at the start of a session. Reads then never make anything up."
        ),
    ]
    extra: Annotated[dict[str, Any], Meta(description="Additional fields of every request.")]


class LMConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which model to ask, where, and within which limits; create it with `read_lm_config`, which validates."""

    type: str
    model: str
    base_url: str = ""
    api_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    verify: bool | str = True
    timeout: float = 120.0
    """Timeout of a request in seconds."""
    retries: int = 4
    max_concurrent: int = 100
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    prices: tuple[float, float] = (0.0, 0.0)
    """Price per million tokens, of prompt and of completion."""
    journal: str | None = None
    response_format: Format = "json_schema"
    """Strictest response format that the server supports."""
    strict: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: dict[str, Any] = {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never appear in logs or errors: the API key and all but very short header values."""
        values = tuple(value for _, value in self.headers if len(value) >= _MIN_SECRET)
        return values if self.api_key is None else (self.api_key, *values)

    @property
    def credentials(self) -> tuple[str, ...]:
        """The subset of `secrets` that is redacted from answers."""
        values = tuple(part for item in self.headers for part in find_credentials(*item))
        return values if self.api_key is None else (self.api_key, *values)

    def __repr__(self) -> str:
        return f"<LMConfig {self.type} {self.model}>"


def read_lm_config(block: Any, where: str = "lm_config") -> LMConfig:
    """Validate the block; `ConfigError` names the invalid key and shows no secret."""
    known = option_type(LMOptions).keys
    if isinstance(block, Mapping):
        # Other libraries call these `model` and `url`, too short for `find_similar` to find them.
        short = {key: name for key in block if key not in known for name in known if str(key) in name}
        for key, name in short.items():
            if not find_similar(key, known):
                raise ConfigError(f"{where}: unknown key {key!r}; did you mean {name!r}?")
    check_keys(block, known, where)
    kind = read_value(
        option_type(Literal["openai", "ollama", "anthropic", "llama", "schema"]), block.get("type"), f"{where}.type"
    )
    if kind == "schema":
        raise ConfigError(f"{where}.type: 'schema' uses no model")
    _refuse_unused(block, kind, where)
    given = {key: read_value(known[key], value, f"{where}.{key}") for key, value in block.items()}
    given = {key: value for key, value in given.items() if value is not None}
    model, ca, prices = given.pop("model_id_or_path", ""), given.pop("ca", None), given.pop("prices", {})
    if not model and kind != "llama":
        raise ConfigError(f"{where}: needs 'model_id_or_path'")
    check_keys(prices, Prices.__annotations__, f"{where}.prices")
    if kind != "llama":
        given["base_url"] = base = read_base_url(given.get("base_url", _BASE_URLS[kind]), f"{where}.base_url")
        if kind == "openai" and base == read_url(base).origin:
            # OpenAI-compatible servers have their API below `/v1`, so a bare origin means that path.
            given["base_url"] = f"{base}/v1"
    return LMConfig(
        **given
        | {
            "model": model,
            "headers": tuple((name.lower(), text) for name, text in given.get("headers", {}).items()),
            "verify": read_trust(given.get("verify", True), ca, f"{where}: "),
            "prices": (prices.get("prompt") or 0.0, prices.get("completion") or 0.0),
        }
    )


def _refuse_unused(block: Mapping[str, Any], kind: str, where: str) -> None:
    """Reject keys that this provider would ignore."""
    unused = [key for key in _ONLY_OVER_HTTP if kind == "llama" and key in block]
    unused += [key for key in ("stateful", "world") if key in block]
    if kind == "anthropic" and "seed" in block:
        unused.append("seed")
    if kind != "openai" and "strict" in block:
        unused.append("strict")
    if unused:
        raise ConfigError(f"{where}.{unused[0]}: the provider {kind!r} has no use for it; remove it")
