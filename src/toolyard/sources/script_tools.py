"""What a script declares -> tools. The declaration comes out of a process that ran a stranger's code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from toolyard.model.bindings import ScriptBinding
from toolyard.model.errors import DefinitionError
from toolyard.model.json_words import json_type
from toolyard.model.names import show
from toolyard.model.report import Rewrite
from toolyard.model.tool import Tool
from toolyard.registry.admission import admit
from toolyard.registry.candidate import Candidate

_HANDLER = re.compile(r"[^\W\d]\w*|TOOLS\[(?:0|[1-9]\d{0,5})\]")
_FLAGS = ("no_background", "allow_repeat")
_CTX = "ctx"
_SHOWN = 500


class Origin(msgspec.Struct, frozen=True):
    """Where the tools of one file come from, and how they are to be run."""

    directory: str
    file: str
    sha256: str
    code: bytes
    namespace: str
    source: str
    settings: Any
    isolation: Literal["process", "inprocess"]
    timeout: float


def tool_of(raw: Mapping[str, Any], origin: Origin) -> tuple[Candidate, tuple[Rewrite, ...]]:
    """The tool that one entry of a declaration defines, ready for a registry; `DefinitionError` if it cannot be one."""
    name = _text(raw, "name")
    parameters = _mapping(raw, "parameters")
    takes_ctx = raw.get("takes_ctx") is True
    if takes_ctx and _CTX in (parameters.get("properties") or {}):
        raise DefinitionError(f"tool {show(name)} declares a parameter 'ctx', which is filled in for it; rename one")
    effects: Any = raw.get("effects") or "unknown"
    tool = Tool(
        name,
        origin.namespace,
        _text(raw, "description"),
        parameters,
        _mapping(raw, "output"),
        _metadata(raw),
        version=_text(raw, "version") if raw.get("version") is not None else None,
        tags=_texts(raw, "tags"),
        aliases=_texts(raw, "aliases"),
        effects=effects,
        source=origin.source,
        binding=_binding(raw, origin, takes_ctx),
    )
    candidate, rewrites = admit(tool)
    candidate.place = f"/{origin.file}"
    return candidate, rewrites


def one_line(text: str) -> str:
    """What a script says, as one line for a log: not too long, and without characters that would do something there."""
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(text[: 2 * _SHOWN].split()))
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."


def _binding(raw: Mapping[str, Any], origin: Origin, takes_ctx: bool) -> ScriptBinding:
    handler = _text(raw, "handler") or "run"
    if not _HANDLER.fullmatch(handler):
        raise DefinitionError(f"handler {show(handler)} is neither a function of the file nor an entry of TOOLS")
    return ScriptBinding(
        origin.directory,
        origin.file,
        handler,
        origin.sha256,
        origin.code,
        origin.settings,
        origin.isolation,
        _timeout(raw, origin.timeout),
        takes_ctx,
        raw.get("is_async") is True,
    )


def _metadata(raw: Mapping[str, Any]) -> dict[str, Any]:
    flags = _mapping(raw, "flags")
    return {flag: True for flag in _FLAGS if flags.get(flag) is True}


def _timeout(raw: Mapping[str, Any], default: float) -> float:
    value = raw.get("timeout")
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value < math.inf):
        raise DefinitionError(f"TOOL_TIMEOUT is a number of seconds above 0, not {value!r:.80}")
    return float(value)


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise DefinitionError(f"{key!r} must be text, not {json_type(value)}")
    return value


def _mapping(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DefinitionError(f"{key!r} must be a mapping, not {json_type(value)}")
    return value


def _texts(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise DefinitionError(f"{key!r} must be a list of text, not {json_type(value)}")
    return tuple(dict.fromkeys(value))
