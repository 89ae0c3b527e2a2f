"""The configuration reference as Markdown, written from the JSON Schema that the options give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolyard.app.schema import VARIABLE_DESCRIPTION, config_schema

_INTRODUCTION = """# Configuration

Every key of a config file, written by `make docs-reference` from the options that the code declares. `toolyard schema`
prints the same as JSON Schema, for editors. Any text may hold `${VARIABLES}`, or `${VARIABLE:-default}`; relative paths
are taken from the folder of the config file.

```yaml
tools:
  registry: [...]      # where tools come from
  engines: {...}       # how calls are answered
  enrichments: [...]   # what is learned about tools
sessions: {...}
policy: {...}
tracing: {...}
server: {...}
```
"""
_KINDS = {"registry": "Sources", "engines": "Engines", "enrichments": "Enrichments"}
_WORDS = {"integer": "whole number", "boolean": "true or false", "string": "text", "array": "list", "object": "mapping"}
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}


def config_reference() -> str:
    """The page, whole."""
    properties = config_schema()["properties"]
    tools = properties["tools"]["anyOf"][0]["properties"]
    lines = [_INTRODUCTION]
    for key, title in _KINDS.items():
        lines += _describe_plugins(title, key, tools[key])
    for key in ("sessions", "policy", "tracing", "server"):
        lines += [f"## `{key}`", "", properties[key]["description"], "", *_write_table(properties[key])]
    return "\n".join(lines).rstrip() + "\n"


def _describe_plugins(title: str, key: str, schema: Mapping[str, Any]) -> Iterator[str]:
    items = schema.get("items") or schema["additionalProperties"]
    yield from (f"## {title}", "", f"Each under `tools.{key}`, by its `type`.", "")
    for case in items["allOf"]:
        options = case["then"]
        about = " ".join(options["description"].split("\n\n")[0].split())
        yield from (f"### `{options['properties']['type']['const']}`", "", about, "")
        keys = {name: item for name, item in options["properties"].items() if name not in ("type", "engine")}
        yield from _write_table({"properties": keys, "required": options["required"]})


def _write_table(schema: Mapping[str, Any]) -> list[str]:
    rows = list(_write_rows(schema, ""))
    return ["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""]


def _write_rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    needed = schema.get("required", ())
    for key, item in schema.get("properties", {}).items():
        if item is False:
            continue
        default = "required" if key in needed else _write_default(item)
        cells = (f"`{prefix}{key}`", _describe_type(item), default, item.get("description", ""))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        for inner, mark in _find_nested(item):
            yield from _write_rows(inner, f"{prefix}{key}{mark}.")


def _find_nested(item: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The mappings inside an option, and how their place is written. Of alternatives, the one with most keys."""
    found = [(branch, "") for branch in _list_branches(item) if branch.get("properties")]
    for branch in _list_branches(item):
        items = branch.get("items")
        if isinstance(items, Mapping):
            found += [(inner, "[]") for inner in _list_branches(items) if inner.get("properties")]
    if found:
        yield max(found, key=lambda pair: len(pair[0]["properties"]))


def _list_branches(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "anyOf" not in item:
        return [item]
    branches = [one for branch in item["anyOf"] for one in _list_branches(branch)]
    return [one for one in branches if one.get("description") != VARIABLE_DESCRIPTION]


def _write_default(item: Mapping[str, Any]) -> str:
    if "default" not in item or item["default"] == "":
        return ""
    default = item["default"]
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _describe_type(item: Mapping[str, Any]) -> str:
    words: dict[str, None] = {}
    for branch in _list_branches(item):
        if "enum" in branch:
            words[", ".join(f"`{choice}`" for choice in branch["enum"])] = None
        else:
            kinds = branch.get("type", "anything")
            for kind in [kinds] if isinstance(kinds, str) else kinds:
                limits = [f"{said} {branch[keyword]:g}" for keyword, said in _LIMITS.items() if keyword in branch]
                words[" ".join([_WORDS.get(kind, kind), ", ".join(limits)]).strip()] = None
    return " or ".join(words)
