"""Every exception toolyard raises on purpose.

    ToolyardError
    |- ConfigError(ValueError)
    |- PluginError
    |  |- UnknownPluginError(KeyError)
    |  `- DuplicatePluginError(ValueError)
    |- DefinitionError(ValueError)        request.invalid_shape   400
    |  |- DuplicateToolError              tool.exists             409
    |  |- InvalidNameError
    |  `- InvalidSchemaError
    |- SourceError
    |  |- SourceUnavailable
    |  |- MalformedSource(.where)
    |  `- ManifestError
    |     `- UnknownScriptError(KeyError)
    |- SessionError                       session.unavailable     503
    |  |- SessionBusyError(TimeoutError)  session.busy            409  retryable
    |  |- SessionExistsError(ValueError)  session.exists          409
    |  |- SessionFullError                session.full            507
    |  |- UnknownEntryError(ValueError)   session.no_entry        404
    |  `- UnknownSessionError(KeyError)   session.not_found       404
    |- ApprovalError                      approval.decided        409
    |  |- ApprovalExpiredError            approval.expired        409
    |  |- ApprovalForbiddenError          approval.forbidden      403
    |  `- UnknownApprovalError(KeyError)  approval.not_found      404
    |- CallError(.info)
    |  |- UnknownToolError(KeyError)      tool.not_found          404
    |  |- StaleDefinition                 catalog.stale           409  retryable
    |  |- CallConflict                    call.conflict           409
    |  |- InvalidArguments                tool.invalid_args       400
    |  |- Denied                          tool.denied             403
    |  |- Held                            tool.held               202
    |  |- ToolFailed                      tool.execution_error    500
    |  |- CallTimeout                     tool.timeout            504  retryable
    |  |- Interrupted                     tool.interrupted        500
    |  |- Unavailable                     tool.unavailable        503  retryable
    |  |- InvalidOutput                   tool.invalid_output     500
    |  `- NoEngine                        tool.no_engine          409
    |- EnrichmentError
    |- SamplingError(.requested, .tools)
    `- SyncInAsyncError(RuntimeError)

An error's class alone defines its code, HTTP status and retryability; `error_class` and `CallError.from_info` map a
code back to its class, so an error has the same class on both sides of a wire.

Programming errors propagate as exceptions. Failures of the model, the tool or the network are `CallError`s, which the
call path turns into a `ToolResult` with the same `ErrorInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypedDict, Unpack, overload

import msgspec

from toolyard.model.bases import DataclassStruct

Effect = Literal["none", "done", "unknown"]


class ViolationFields(TypedDict):
    """A violation of a schema, as in the details of an error."""

    pointer: str
    message: str
    keyword: str


class ErrorInfo(DataclassStruct, frozen=True, omit_defaults=True):
    """Why a call failed, in a form that programs and models can act on.

    `effect` says whether the outside world may have changed; check it before a retry.
    """

    code: str
    message: str
    retryable: bool = False
    retry_after: float | None = None
    effect: Effect = "none"
    hint: str | None = None
    details: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; fields at their default are left out, except `retryable` and `effect`."""
        data = {"code": self.code, "message": self.message, "retryable": self.retryable, "effect": self.effect}
        optional = {"retry_after": self.retry_after, "hint": self.hint, "details": self.details or None}
        return data | {key: value for key, value in optional.items() if value is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ErrorInfo:
        """Inverse of `to_dict`."""
        return msgspec.convert(data, cls)

    @property
    def violations(self) -> list[ViolationFields]:
        """The violations of a schema in the details; empty if they have none, or a tool's own under this key."""
        try:
            return msgspec.convert(self.details.get("violations", []), list[ViolationFields])
        except msgspec.ValidationError:
            return []

    @property
    def approval_id(self) -> str | None:
        """The id of the approval that the call is held for; None if it is not held."""
        approval = self.details.get("approval") if self.code == Held.code else None
        found = approval.get("id") if isinstance(approval, dict) else None
        return found if isinstance(found, str) else None


class _Facts(TypedDict, total=False):
    """Attributes that an error class sets with keywords in its class statement."""

    code: str
    http_status: int
    retryable: bool
    effect: Effect


class ToolyardError(Exception):
    """Base class of all errors that toolyard raises."""

    code: ClassVar[str] = "server.error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls, **facts: Unpack[_Facts]) -> None:
        """Set the facts given as keywords in the class statement; the rest are inherited."""
        for name, value in facts.items():
            setattr(cls, name, value)

    # KeyError shows the repr of its argument; the subclasses that are also KeyErrors must not.
    __str__ = Exception.__str__


class ConfigError(ToolyardError, ValueError):
    """A config file or option is invalid; the text says where and names the nearest valid key."""


class PluginError(ToolyardError):
    """A loader, engine, enrichment or sampler could not be found, registered or imported."""


class UnknownPluginError(PluginError, KeyError):
    """No plugin of this kind has this name."""


class DuplicatePluginError(PluginError, ValueError):
    """Two classes are registered under one plugin name."""


class DefinitionError(ToolyardError, ValueError, code="request.invalid_shape", http_status=400):
    """A tool definition is invalid."""


class DuplicateToolError(DefinitionError, code="tool.exists", http_status=409):
    """Same namespace, same name, same input schema, or an alias that hides another tool."""


class InvalidNameError(DefinitionError):
    """A namespace or tool name violates the grammar; the message shows it escaped."""


class InvalidSchemaError(DefinitionError):
    """A schema is not valid JSON Schema, reaches outside itself, or exceeds the budget."""

    def __init__(self, message: str, *, pointer: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer
        self.reason = reason or message
        """The message without the name of the tool."""


class SourceError(ToolyardError):
    """A source of tools could not be read."""


class SourceUnavailable(SourceError):
    """The source does not exist or does not respond; the same call may succeed later."""

    @classmethod
    def from_call(cls, error: CallError) -> SourceUnavailable:
        """The same error, with its hint, of a call that should have read the source."""
        return cls(f"{error}; {error.info.hint}" if error.info.hint else str(error))


class MalformedSource(SourceError, ValueError):
    """The content of a source is invalid at `where` (file, line, tool)."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    @classmethod
    def at_character(cls, text: str, index: int, message: str, what: str) -> MalformedSource:
        """The error for the character of `text` at `index`; lines and columns in `where` count from 1."""
        line = text.count("\n", 0, index) + 1
        column = index - text.rfind("\n", 0, index)
        return cls(message, where=f"{what}:{line}:{column}")


class ManifestError(SourceError):
    """A script manifest is missing, corrupt, or does not match the files beside it."""


class UnknownScriptError(ManifestError, KeyError):
    """Neither the directory nor its manifest has a script of this name."""


class SessionError(ToolyardError, code="session.unavailable", http_status=503):
    """A session was used in a way its life cycle does not allow."""

    # Not retryable: calls of the batch may have run already.


class SessionBusyError(SessionError, TimeoutError, code="session.busy", http_status=409, retryable=True):
    """The session did not become free in time; a call is still running. No call of the batch was run."""


class SessionFullError(SessionError, code="session.full", http_status=507):
    """The session, or all in-memory sessions together, have reached their size limit. No call of the batch was run."""


class SessionExistsError(SessionError, ValueError, code="session.exists", http_status=409):
    """`setup` was called twice for one session id."""


class UnknownEntryError(SessionError, ValueError, code="session.no_entry", http_status=404):
    """The history of the session has no such entry."""


class UnknownSessionError(SessionError, KeyError, code="session.not_found", http_status=404):
    """The session was never set up, or has ended."""


class ApprovalError(ToolyardError, code="approval.decided", http_status=409):
    """The approval is decided, used, expired, or can no longer be used."""


class ApprovalExpiredError(ApprovalError, code="approval.expired"):
    """The approval expired before a decision."""


class ApprovalForbiddenError(ApprovalError, code="approval.forbidden", http_status=403):
    """The caller may not decide on this approval."""


class UnknownApprovalError(ApprovalError, KeyError, code="approval.not_found", http_status=404):
    """No approval has that id, or the caller may not see it."""


class CallError(ToolyardError, code="tool.execution_error"):
    """One call failed, as described by `info`. Only errors of this class become a `ToolResult`."""

    effect: ClassVar[Effect] = "none"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        effect: Effect | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.info = ErrorInfo(
            code=self.code,
            message=message,
            retryable=self.retryable if retryable is None else retryable,
            retry_after=retry_after,
            effect=self.effect if effect is None else effect,
            hint=hint,
            details=details or {},
        )

    @classmethod
    def from_info(cls, info: ErrorInfo) -> CallError:
        """The exception for a received or stored `ErrorInfo`, in the class of its code; `CallError` if unknown."""
        kind = error_class(info.code)
        error = (kind if kind is not None and issubclass(kind, CallError) else CallError)(info.message)
        error.info = info
        return error

    @classmethod
    def from_wire(cls, data: object) -> CallError | None:
        """The error that another toolyard sent; None unless it is one of a call, in the fields and shapes of ours.

        A server may claim anything: its codes get no meaning that ours lack, and a call that it holds is denied here,
        since nobody can decide here on an approval that is kept there.
        """
        if not isinstance(data, dict) or not data.keys() >= {"code", "message", "retryable", "effect"}:
            return None
        try:
            info = ErrorInfo.from_dict(data)
        except msgspec.ValidationError:
            return None
        kind = error_class(info.code)
        if kind is None or not issubclass(kind, CallError):
            return None
        pause = info.retry_after if info.retry_after is None else max(info.retry_after, 0.0)
        code = (Denied if kind is Held else kind).code
        return cls.from_info(msgspec.structs.replace(info, code=code, retry_after=pause))


class UnknownToolError(CallError, KeyError, code="tool.not_found", http_status=404):
    """No tool has this name, or a bare name exists in several namespaces."""


class StaleDefinition(CallError, code="catalog.stale", http_status=409, retryable=True):
    """The tool's definition has changed since the caller read it."""


class CallConflict(CallError, code="call.conflict", http_status=409):
    """The session already has a different call with this `call_id`."""


class InvalidArguments(CallError, code="tool.invalid_args", http_status=400):
    """No overload accepts the arguments; `info.details["violations"]` lists why."""

    sent: bytes = b""
    """The arguments as JSON for the session's record; empty if they could not be encoded. Never shown in messages."""


class Denied(CallError, code="tool.denied", http_status=403):
    """Policy forbids the call."""


class Held(CallError, code="tool.held", http_status=202):
    """The call needs approval and has not run. `info.details["approval"]` has the id and the expiry."""


class ToolFailed(CallError, code="tool.execution_error", effect="unknown"):
    """The tool itself raised; the original exception is `__cause__`."""

    unforeseen: bool = False
    """True if the exception was not one that the tool raised deliberately as its answer."""
    raised_in: object = None
    """The tool whose function raised."""
    trace: str = ""
    """The traceback as text if the exception was raised in another process. For logs, not for callers."""


class CallTimeout(CallError, code="tool.timeout", http_status=504, retryable=True, effect="unknown"):
    """The call passed its deadline."""


class Interrupted(CallError, code="tool.interrupted", effect="unknown"):
    """The call was cancelled, or its process died, before it completed. Recorded, rarely raised."""


class Unavailable(CallError, code="tool.unavailable", http_status=503, retryable=True):
    """The service behind the tool could not be reached."""


class InvalidOutput(CallError, code="tool.invalid_output", effect="done"):
    """The tool returned a value that violates its output schema or type."""


class NoEngine(CallError, code="tool.no_engine", http_status=409):
    """No available engine can answer this tool."""


class EnrichmentError(ToolyardError):
    """An enrichment failed, or no other enrichment produces its inputs."""


class SamplingError(ToolyardError):
    """A sampler could not find `requested` tools; `tools` holds the ones it found.

    Accepts `SamplingError("why", 4, found)`, `SamplingError(4, found)`, or the same as keywords.
    """

    @overload
    def __init__(self, message: str, requested: int = 0, tools: Sequence[Any] = ()) -> None: ...
    @overload
    def __init__(self, requested: int, tools: Sequence[Any] = (), /) -> None: ...
    @overload
    def __init__(self, requested: int, /, *, tools: Sequence[Any]) -> None: ...
    @overload
    def __init__(self, *, requested: int, tools: Sequence[Any] = ()) -> None: ...
    def __init__(
        self, message: str | int = "", requested: int | Sequence[Any] = 0, tools: Sequence[Any] | None = None
    ) -> None:
        if not isinstance(message, str):
            # Without a message, the positional arguments shift one place to the left.
            tools = requested if tools is None and not isinstance(requested, int) else tools
            message, requested = "", message
        if not isinstance(requested, int):
            raise TypeError(f"`requested` is the number of tools that were asked for, not {requested!r}")
        self.requested = requested
        self.tools = list(tools or ())
        super().__init__(message or f"found {len(self.tools)} of {requested} tools")


class SyncInAsyncError(ToolyardError, RuntimeError):
    """A sync method was called on the home loop; the text names its async twin."""


# In definition order, so `ToolFailed` replaces `CallError` as the class of their common code.
_BY_CODE: Mapping[str, type[ToolyardError]] = {
    kind.code: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, ToolyardError) and kind is not ToolyardError and "code" in vars(kind)
}

CALL_STATUSES: frozenset[int] = frozenset(kind.http_status for kind in _BY_CODE.values() if issubclass(kind, CallError))
"""Every HTTP status that a failed call can have."""


def error_class(code: str) -> type[ToolyardError] | None:
    """The class with this code; None if no class of toolyard has it."""
    return _BY_CODE.get(code)


def http_status_of(code: str) -> int:
    """The HTTP status of a code; 500 for an unknown one."""
    return _BY_CODE.get(code, ToolyardError).http_status
