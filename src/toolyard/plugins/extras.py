"""What is installed beside toolyard: extras, named by whoever needs one, and what other packages offer."""

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


def entry_points_of(group: str) -> list[tuple[str, str]]:
    """Names and values of the entry points of a group, in every installed package.

    They are read here, since the reader that `importlib_metadata` puts in the place of the standard library's loses
    those of all packages over one that is wrong.
    """
    from configparser import ConfigParser, Error
    from importlib.metadata import distributions

    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for package in distributions():
        text = package.read_text("entry_points.txt") or ""
        if f"[{group}]" not in text:
            continue
        name = package.metadata["Name"] or ""
        # Of two packages of one name, the first is the one that is imported.
        if name in seen:
            continue
        seen.add(name)
        parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[method-assign,assignment]
        try:
            parser.read_string(text)
        except Error:
            continue
        found += parser.items(group)
    return found
