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

The code, the HTTP status and the retryability of an error are said by its class and nowhere else; `error_class` and
`CallError.from_info` read them back, so that an error has the same class on either side of a wire.

The programmer's mistakes raise; the model's, the tool's and the network's mistakes are `CallError`s,
which the call path turns into a `ToolResult` carrying the same `ErrorInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypedDict, Unpack, overload

import msgspec

from toolyard.model.bases import DataclassStruct

Effect = Literal["none", "done", "unknown"]


class ErrorInfo(DataclassStruct, frozen=True, omit_defaults=True):
    """Why a call failed, in a form that programs and models can act on.

    `effect` says whether the outside world may have changed, which is what a caller must know
    before it retries.
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
        data: dict[str, Any] = {"code": self.code, "message": self.message}
        data["retryable"] = self.retryable
        data["effect"] = self.effect
        if self.retry_after is not None:
            data["retry_after"] = self.retry_after
        if self.hint is not None:
            data["hint"] = self.hint
        if self.details:
            data["details"] = self.details
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ErrorInfo:
        """Inverse of `to_dict`."""
        return msgspec.convert(data, cls)


class _Facts(TypedDict, total=False):
    """What is the same for all errors of a class."""

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
        """A class says its facts beside its bases; what it does not say is as there."""
        for name, value in facts.items():
            setattr(cls, name, value)

    # KeyError shows the repr of its argument; the subclasses that are also KeyErrors must not.
    __str__ = Exception.__str__


class ConfigError(ToolyardError, ValueError):
    """A config file or option is invalid; the text says where and names the nearest valid key."""


class PluginError(ToolyardError):
    """A loader, engine, enrichment or sampler could not be found, registered or imported."""


class UnknownPluginError(PluginError, KeyError):
    """No plugin of that kind has that name."""


class DuplicatePluginError(PluginError, ValueError):
    """Two classes are registered under one plugin name."""


class DefinitionError(ToolyardError, ValueError, code="request.invalid_shape", http_status=400):
    """A tool definition is invalid."""


class DuplicateToolError(DefinitionError, code="tool.exists", http_status=409):
    """Same namespace, same name, same input schema, or an alias that hides another tool."""


class InvalidNameError(DefinitionError):
    """A namespace or tool name breaks the grammar; the text shows it escaped."""


class InvalidSchemaError(DefinitionError):
    """A schema is not valid JSON Schema, reaches outside itself, or exceeds the budget."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class SourceError(ToolyardError):
    """A source of tools could not be read."""


class SourceUnavailable(SourceError):
    """The source does not answer or does not exist; the same call may work later."""


class MalformedSource(SourceError, ValueError):
    """The content of a source is invalid at `where` (file, line, tool)."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    @classmethod
    def at_character(cls, text: str, index: int, message: str, what: str) -> MalformedSource:
        """The error at a character of `text`; lines and columns count from 1."""
        line = text.count("\n", 0, index) + 1
        column = index - text.rfind("\n", 0, index)
        return cls(message, where=f"{what}:{line}:{column}")


class ManifestError(SourceError):
    """A script manifest is missing, corrupt, or does not match the files beside it."""


class UnknownScriptError(ManifestError, KeyError):
    """The directory, or its manifest, has no script of that name."""


class SessionError(ToolyardError, code="session.unavailable", http_status=503):
    """A session was used in a way its life cycle does not allow."""

    # Not retryable: whether anything had run by then, nobody knows.


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
    """Nobody decided in time."""


class ApprovalForbiddenError(ApprovalError, code="approval.forbidden", http_status=403):
    """The caller may not decide on this approval."""


class UnknownApprovalError(ApprovalError, KeyError, code="approval.not_found", http_status=404):
    """No approval has that id, or the caller may not see it."""


class CallError(ToolyardError, code="tool.execution_error"):
    """One call failed; `info` holds the facts. The only kind that becomes a `ToolResult`."""

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
        """The exception of the facts that were sent or written down, of the class that its code has."""
        kind = error_class(info.code)
        error = (kind if kind is not None and issubclass(kind, CallError) else CallError)(info.message)
        error.info = info
        return error


class UnknownToolError(CallError, KeyError, code="tool.not_found", http_status=404):
    """No tool has that name, or a bare name fits several namespaces."""


class StaleDefinition(CallError, code="catalog.stale", http_status=409, retryable=True):
    """The tool is not the one the caller knows: its definition changed since."""


class CallConflict(CallError, code="call.conflict", http_status=409):
    """The `call_id` was used before in this session, for another call."""


class InvalidArguments(CallError, code="tool.invalid_args", http_status=400):
    """No overload accepts the arguments; `info.details["violations"]` lists why."""

    sent: bytes = b""
    """The arguments as JSON text for the record, where they could be written; no message shows it."""


class Denied(CallError, code="tool.denied", http_status=403):
    """Policy forbids the call."""


class Held(CallError, code="tool.held", http_status=202):
    """Somebody must approve the call first; nothing has run. `info.details["approval"]` has the id and the expiry."""


class ToolFailed(CallError, code="tool.execution_error", effect="unknown"):
    """The tool itself raised; the original exception is `__cause__`."""

    unforeseen: bool = False
    """True if it was made of an exception that the tool did not mean as an answer."""
    raised_in: object = None
    """The tool whose function raised that exception."""
    trace: str = ""
    """Where it was raised, as text, if that was in another process. For logs, not for callers."""


class CallTimeout(CallError, code="tool.timeout", http_status=504, retryable=True, effect="unknown"):
    """The call passed its deadline."""


class Interrupted(CallError, code="tool.interrupted", effect="unknown"):
    """The call was cancelled, or its process ended, before it was answered. Recorded, hardly ever raised."""


class Unavailable(CallError, code="tool.unavailable", http_status=503, retryable=True):
    """The service behind the tool could not be reached."""


class InvalidOutput(CallError, code="tool.invalid_output", effect="done"):
    """The tool answered with something its output schema or type does not allow."""


class NoEngine(CallError, code="tool.no_engine", http_status=409):
    """Nothing here knows how to answer this tool."""


class EnrichmentError(ToolyardError):
    """An enrichment failed, or its inputs are not produced by any other."""


class SamplingError(ToolyardError):
    """A sampler could not find `requested` tools; `tools` holds the ones it did find.

    Made as `SamplingError("why", 4, found)`, as `SamplingError(4, found)`, or with the same by keyword.
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
            # Without a message, everything stands one place further to the left.
            tools = requested if tools is None and not isinstance(requested, int) else tools
            message, requested = "", message
        if not isinstance(requested, int):
            raise TypeError(f"`requested` is the number of tools that were asked for, not {requested!r}")
        self.requested = requested
        self.tools = list(tools or ())
        super().__init__(message or f"found {len(self.tools)} of {requested} tools")


class SyncInAsyncError(ToolyardError, RuntimeError):
    """A sync method was called on the home loop; the text names its async twin."""


# In the order of definition: of two with one code it is the later, the tool's own failure.
_BY_CODE: Mapping[str, type[ToolyardError]] = {
    kind.code: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, ToolyardError) and kind is not ToolyardError and "code" in vars(kind)
}

CALL_STATUSES: frozenset[int] = frozenset(kind.http_status for kind in _BY_CODE.values() if issubclass(kind, CallError))
"""Every HTTP status that a failed call can have."""


def error_class(code: str) -> type[ToolyardError] | None:
    """The class that has the code; None if the code is none of ours."""
    return _BY_CODE.get(code)


def http_status_of(code: str) -> int:
    """The HTTP status of a code; 500 for one that is not known."""
    return _BY_CODE.get(code, ToolyardError).http_status
