"""What `pip install toolyard` leaves out, named by whoever needs it."""

from __future__ import annotations

from importlib.util import find_spec

from toolyard.model.errors import ConfigError


def require_extra(extra: str, purpose: str, *modules: str) -> None:
    """Raise `ConfigError` with the command that installs the extra, if one of these modules of it is lacking."""
    lacking = [name for name in modules if find_spec(name) is None]
    if lacking:
        raise missing_extra(extra, purpose, *lacking)


def missing_extra(extra: str, purpose: str, *modules: str) -> ConfigError:
    """The error that names an extra and what of it is lacking."""
    return ConfigError(f"{purpose} needs {', '.join(modules)}; run: pip install 'toolyard[{extra}]'")
