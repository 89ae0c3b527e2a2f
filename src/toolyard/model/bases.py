"""Base classes: msgspec structs that pass for dataclasses, and objects closed by `with`.

`dataclasses.asdict`, `replace`, `fields` and pydantic work on `DataclassStruct`. It stays a struct because real
dataclasses take five times as long to create and compare. The equivalent dataclass is made on first use, so that
programs that never need it do not import `dataclasses`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec


class _DataclassAttribute:
    """Descriptor that forwards to the attribute of the same name on the equivalent dataclass."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        # `__class__`, not `type()`: a `DeferredTool` presents itself as a `Tool`, without its raw material.
        shown: Any = owner if instance is None else instance.__class__
        return getattr(_dataclass_of(shown), self._name)


class DataclassStruct(msgspec.Struct, frozen=True):
    """A frozen struct that passes for a frozen dataclass."""

    not_data: ClassVar[tuple[str, ...]] = ()
    """Fields that `asdict` and `fields` omit and `replace` carries over."""

    __dataclass_fields__ = _DataclassAttribute()
    __dataclass_params__ = _DataclassAttribute()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import no_info_wrap_validator_function

        def read(value: Any, validate: Any) -> Any:
            if isinstance(value, cls):
                return value
            made = validate(value)
            return cls(**{name: getattr(made, name) for name in made.__dataclass_fields__ if hasattr(made, name)})

        return no_info_wrap_validator_function(read, handler.generate_schema(_dataclass_of(cls)))


@functools.cache
def _dataclass_of(struct: Any) -> type:
    from dataclasses import MISSING, InitVar, field, make_dataclass

    fields: list[tuple[str, Any, Any]] = []
    for info in msgspec.structs.fields(struct):
        said = {"default": info.default, "default_factory": info.default_factory}
        given: dict[str, Any] = {key: MISSING if value is msgspec.NODEFAULT else value for key, value in said.items()}
        # Fields missing from `__match_args__` are keyword-only.
        made = field(**given, kw_only=info.name not in struct.__match_args__)
        fields.append((info.name, InitVar(info.type) if info.name in struct.not_data else info.type, made))
    return make_dataclass(struct.__name__, fields, frozen=True, slots=True)


class Closing(ABC):
    """Context manager base. Subclasses override `close`, and `aclose` if closing has to await."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Idempotent."""

    async def aclose(self) -> None:
        """`close` for async code."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
