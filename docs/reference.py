"""`make docs-reference`: pages of the reference, written from the code, so that nothing is in one and not in the other.

`commands.md` from the command line, `errors.md` from the error classes and the refusals of the server, `http-api.md`
from its OpenAPI document, `python-api.md` from signatures, docstrings and the options of samplers, and
`configuration.md` from the JSON Schema of a config.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

DOCS = Path(__file__).resolve().parent
SRC = DOCS.parent / "src" / "toolyard"
REMEDIES: dict[str, dict[str, list[str]]] = tomllib.loads((DOCS / "errors.toml").read_text())
_HEADING = "\n<!-- Written by `make docs-reference` from the code. -->\n"
_COMMANDS = """\
Every command takes `--json`, `--quiet` and `--verbose`.

| exit status | meaning |
|---|---|
| 0 | success |
| 1 | findings, a failed call, or a name that does not exist |
| 2 | not carried out: invalid usage or configuration, or a source or store that failed |
| 3 | a call is held for approval |
| 130 | interrupted |

Commands that work on tools take their file from the first argument (`toolyard search yard.yaml "QUERY"`,
`toolyard call my_tools.py::add a=1`), from `-c FILE`, from `$TOOLYARD_CONFIG`, or from `./toolyard.yaml`, in this
order. Without a file they use the tools that ship with toolyard. `--skip-bad` skips entries that a strict load
would reject.
"""
_ERRORS = """\
A failed call is a result with `error_info`:

| field | meaning |
|---|---|
| `code` | one of the codes below; the same from Python, the command line, HTTP and MCP |
| `message` | what went wrong |
| `retryable` | whether the same call may succeed later |
| `effect` | `none`: nothing was changed. `unknown`: something may have been changed. `done`: it was changed |
| `retry_after`, `hint`, `details` | optional |

Over HTTP the status expresses the code, too. In Python each code has [an exception class](python-api.md#errors).
"""
_HTTP_API = """\
A server publishes this API with all schemas at `/openapi.json`. If the server has keys, send
`Authorization: Bearer TOKEN`. It also serves `/mcp` and `/sse` ([MCP](mcp-server.md)) and `/console/`
([console](console.md)).
"""
_PYTHON_API = "Import every name from `toolyard`. Every method of an engine has an async twin: `aexecute` and so on.\n"


def write_commands() -> str:
    """Every command with its usage, as `--help` prints it."""
    from rich.console import Console

    from toolyard.cli.main import app

    def ask(words: list[str]) -> str:
        console = Console(file=StringIO(), width=100, color_system=None)
        app.help_print(words, console=console)
        return re.sub(r"[ \t]+$", "", console.file.getvalue(), flags=re.MULTILINE).strip()

    parts = [
        "# Commands",
        _HEADING,
        _COMMANDS,
    ]
    for words in list_commands(app):
        parts += [f"## `toolyard {' '.join(words)}`\n", f"```text\n{ask(words)}\n```\n"]
    return "\n".join(parts)


def list_commands(app: Any, before: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """The words of every command, groups gone into."""
    for name in sorted(app):
        if name.startswith("-"):
            continue
        # Whether it is a group is told by looking for commands below it, and by having no command of its own.
        below = [] if app[name].default_command else list(list_commands(app[name], (*before, name)))
        yield from below or [[*before, name]]


def find_codes() -> dict[str, set[int]]:
    """Each error code with its HTTP statuses: those of the classes, and those of refusals in the source."""
    from toolyard.model import errors

    codes: dict[str, set[int]] = defaultdict(set)
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.ToolyardError):
            codes[cls.code].add(cls.http_status)
    for text in (path.read_text() for path in SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(text)) if "HttpFault(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "HttpFault" and len(node.args) >= 2:
                status, code = node.args[:2]
                if isinstance(code, ast.Constant):
                    codes[code.value].update([status.value] if isinstance(status, ast.Constant) else [])
    return dict(codes)


def write_errors() -> str:
    """Every code with its status, its cause and what to do about it."""
    codes = find_codes()
    parts = [
        "# Errors",
        _HEADING,
        _ERRORS,
    ]
    for group, known in REMEDIES.items():
        parts += [
            f"## {group.replace('_', ' ').capitalize()}\n",
            "| code | HTTP | cause | what to do |",
            "|---|---|---|---|",
        ]
        for code, (cause, remedy) in known.items():
            status = ", ".join(map(str, sorted(codes.get(code, ()))))
            parts.append(f"| `{code}` | {status} | {cause} | {remedy} |")
        parts.append("")
    return "\n".join(parts)


async def _fetch_openapi() -> dict[str, Any]:
    import httpx2

    from toolyard import Toolyard
    from toolyard.serving import asgi

    with Toolyard.from_config({"tools": [{"type": "domains", "domains": ["core"]}]}) as yard:
        app = asgi(yard)
        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")
        async with app.router.lifespan_context(app), client:
            return (await client.get("/openapi.json")).json()


def write_http_api() -> str:
    """Every route with what it takes and answers, from the document that the server gives."""
    document = asyncio.run(_fetch_openapi())
    parts = [
        "# HTTP API",
        _HEADING,
        _HTTP_API,
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += [f"## `{method.upper()} {path}`\n", f"{operation['summary']}.\n"]
            if operation.get("description"):
                parts.append(operation["description"] + "\n")
            rows = [
                f"| `{item['name']}` | {item['in']} | {_say_type(item['schema'])} | {item.get('description', '')} |"
                for item in (_follow(document, item) for item in operation.get("parameters", ()))
            ]
            if rows:
                parts += ["| parameter | in | value | meaning |", "|---|---|---|---|", *rows, ""]
            if body := operation.get("requestBody"):
                schema = _follow(document, next(iter(_follow(document, body)["content"].values()))["schema"])
                fields = ", ".join(f"`{name}`" for name in schema.get("properties", {}))
                parts.append(f"Body: {fields or _say_type(schema)}.\n")
            parts.append(f"Responses: {', '.join(operation['responses'])}.\n")
    return "\n".join(parts)


def _follow(document: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in item:
        found: Any = document
        for word in item["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        item = found
    return item


def _say_type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kinds = [branch.get("type", "") for branch in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))]
    return " or ".join(str(kind) for kind in kinds if kind) or "anything"


def write_python_api() -> str:
    """Every public name by kind, with its signature and the first words of its docstring; of classes their methods."""
    import toolyard

    kinds: dict[str, list[str]] = {"Classes": [], "Functions": [], "Errors": [], "Constants": []}
    for name in toolyard.__all__:
        value = getattr(toolyard, name)
        if isinstance(value, type) and issubclass(value, BaseException):
            line = f"| `{name}` | {_code_of(value)} | {_first_words(value)} |"
            kinds["Errors"].append(line)
        elif isinstance(value, type):
            kinds["Classes"] += _describe_class(name, value)
        elif callable(value):
            kinds["Functions"] += [f"### `{name}{_signature(value)}`\n", _first_words(value) + "\n"]
        else:
            kinds["Constants"].append(f"- `{name}` = `{value!r}`")
    parts = [
        "# Python API",
        _HEADING,
        _PYTHON_API,
    ]
    for kind, lines in kinds.items():
        parts.append(f"## {kind}\n")
        if kind == "Errors":
            parts += ["| class | code | meaning |", "|---|---|---|"]
        parts += [*lines, ""]
    return "\n".join([*parts, *_describe_samplers()])


def _describe_samplers() -> Iterator[str]:
    """Every sampler with what it needs and takes; what all take is said once."""
    from toolyard.insight.samplers.base import SamplerOptions
    from toolyard.plugins import SAMPLERS

    yield "## Samplers\n\nOptions of `sampler(TYPE, ...)` and `toolyard sample TYPE -o OPTION=VALUE`. All take:\n"
    yield from _write_options(SamplerOptions)
    for name in SAMPLERS.names():
        cls = SAMPLERS.get(name)
        if not cls.__module__.startswith("toolyard."):
            continue
        needed = ", ".join(f"[`{artifact}`](configuration.md#{artifact})" for artifact in cls.required_artifacts)
        inner = {"sampler", "samplers"} & set(cls.options_type.__struct_fields__)
        needed = needed or ("what its inner samplers need" if inner else "nothing")
        yield f"### `{name}`\n\n{_first_words(cls)} Needs: {needed}.\n"
        yield from _write_options(cls.options_type, but=SamplerOptions.__struct_fields__)


def _write_options(struct: type, but: Iterable[str] = ()) -> list[str]:
    """The table of a struct's fields, each told by the text that stands below it."""
    import msgspec

    told: dict[str, str] = {}
    for cls in struct.__mro__[:-1]:
        if cls.__module__.startswith("toolyard."):
            body = ast.parse(inspect.getsource(cls)).body[0].body
            for field, text in pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    told.setdefault(field.target.id, " ".join(text.value.value.split()))
    schema = _follow(document := msgspec.json.schema(struct), document)
    fields = {
        name: {**item, "description": told[name], "default": "" if item["default"] is None else item["default"]}
        for name, item in schema["properties"].items()
        if name not in but
    }
    return write_table({"properties": fields})


def _code_of(error: type) -> str:
    return f"`{error.__dict__['code']}`" if "code" in error.__dict__ else ""


def _describe_class(name: str, cls: type) -> Iterator[str]:
    import toolyard

    bases = [base for base in cls.__mro__[1:] if getattr(toolyard, base.__name__, None) is base]
    yield f"### `{name}`\n"
    yield f"```text\n{name}{_signature(cls)}\n```\n"
    inherits = f" Also has the methods of `{bases[0].__name__}`." if bases else ""
    yield _first_words(cls) + inherits + "\n"
    rows = [
        f"- `{method}{_signature(value)}`: {_first_words(value)}"
        for method, value in inspect.getmembers(cls, callable)
        if not method.startswith("_") and _is_ours(value) and not _is_twin(cls, method)
        if not any(hasattr(base, method) for base in bases)
    ]
    if rows:
        yield from [*rows, ""]


def _is_ours(method: Any) -> bool:
    return str(getattr(method, "__module__", "")).startswith("toolyard") and bool(inspect.getdoc(method))


def _is_twin(cls: type, method: str) -> bool:
    return method.startswith("a") and hasattr(cls, method[1:])


def _signature(value: Any) -> str:
    if isinstance(value, type) and issubclass(value, Enum):
        return f"({' | '.join(repr(member.value) for member in value)})"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    made = inspect.unwrap(value.__init__ if isinstance(value, type) else value)
    names = getattr(made, "__globals__", {})
    kept = [
        parameter.replace(annotation=_Said(parameter.annotation, names))
        if parameter.annotation is not parameter.empty
        else parameter
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    returns = signature.return_annotation
    if returns is not signature.empty:
        returns = _Said(returns)
    text = str(signature.replace(parameters=kept, return_annotation=returns))
    text = re.sub(r"<[^<>]*>", "...", text)
    return re.sub(r"\b(toolyard|collections\.abc|typing|msgspec)(\.\w+)*\.", "", text)


class _Said:
    """An annotation that is printed as people write it, alike in every version of Python, and without its remarks."""

    def __init__(self, annotation: Any, names: Mapping[str, Any] = MappingProxyType({})) -> None:
        if isinstance(annotation, str):
            self._text = ast.unparse(_WithoutRemarks(names).visit(ast.parse(annotation)))
        else:
            self._text = _say_annotation(annotation)

    def __repr__(self) -> str:
        return self._text


class _WithoutRemarks(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        said = self._names.get(node.id)
        return ast.Name(_say_annotation(said)) if get_origin(said) is Annotated else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]
        return self.generic_visit(node)


def _say_annotation(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "None"
    if origin is Annotated:
        return _say_annotation(arguments[0])
    if origin in (Union, UnionType):
        return " | ".join(_say_annotation(item) for item in arguments)
    if origin is Literal or not arguments:
        return annotation.__name__ if isinstance(annotation, type) and origin is None else str(annotation)
    said = ", ".join("..." if item is ... else _say_annotation(item) for item in arguments)
    return f"{getattr(origin, '__name__', origin)}[{said}]"


def _first_words(value: Any) -> str:
    words = (inspect.getdoc(value) or "").split("\n\n")[0]
    return " ".join(words.split())


_INTRODUCTION = f"""# Configuration
{_HEADING}
Every key of a config file. `toolyard schema` prints the same as JSON Schema, for editors. Any text may contain
`${{VARIABLE}}` or `${{VARIABLE:-default}}`; an unset variable without a default is an error. Relative paths
are relative to the folder of the config file.

```yaml
tools:
  registry: [...]      # where tools come from
  engines: {{...}}       # how calls are executed
  enrichments: [...]   # what is added to the tools
sessions: {{...}}
policy: {{...}}
tracing: {{...}}
server: {{...}}
```
"""
_KINDS = {"registry": "Sources", "engines": "Engines", "enrichments": "Enrichments"}
_WORDS = {"integer": "whole number", "boolean": "true or false", "string": "text", "array": "list", "object": "mapping"}
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}


def write_configuration() -> str:
    """Every key of a config, block by block and plugin by plugin."""
    from toolyard.app.schema import config_schema

    properties = config_schema()["properties"]
    tools = properties["tools"]["anyOf"][0]["properties"]
    lines = [_INTRODUCTION]
    for key, title in _KINDS.items():
        lines += _describe_plugins(title, key, tools[key])
    for key in ("sessions", "policy", "tracing", "server"):
        lines += [f"## `{key}`", "", properties[key]["description"], "", *write_table(properties[key])]
    return "\n".join(lines).rstrip() + "\n"


def _describe_plugins(title: str, key: str, schema: Mapping[str, Any]) -> Iterator[str]:
    items = schema.get("items") or schema["additionalProperties"]
    yield from (f"## {title}", "", f"Under `tools.{key}`, selected by `type`.", "")
    for case in items["allOf"]:
        options = case["then"]
        about = " ".join(options["description"].split("\n\n")[0].split())
        yield from (f"### `{options['properties']['type']['const']}`", "", about, "")
        keys = {name: item for name, item in options["properties"].items() if name not in ("type", "engine")}
        yield from write_table({"properties": keys, "required": options["required"]})


def write_table(schema: Mapping[str, Any]) -> list[str]:
    """The properties of an object's schema, a row each."""
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
    """The mappings inside an option, and how their place is written.

    Of alternatives, the one with most keys, with what others have to choose from under the same ones.
    """
    found = [(branch, "") for branch in _list_branches(item) if branch.get("properties")]
    for branch in _list_branches(item):
        items = branch.get("items")
        if isinstance(items, Mapping):
            found += [(inner, "[]") for inner in _list_branches(items) if inner.get("properties")]
    if found:
        most, mark = max(found, key=lambda pair: len(pair[0]["properties"]))
        alike = [branch["properties"] for branch, other in found if other == mark]
        choices = {
            key: {**item, "anyOf": [other[key] for other in alike if key in other]}
            for key, item in most["properties"].items()
            if item and any("enum" in branch for branch in _list_branches(item))
        }
        yield {**most, "properties": {**most["properties"], **choices}}, mark


def _list_branches(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "anyOf" not in item:
        return [item]
    from toolyard.app.schema import VARIABLE_DESCRIPTION

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
    branches = _list_branches(item)
    choices = dict.fromkeys(choice for branch in branches for choice in branch.get("enum", ()))
    words = {", ".join(f"`{choice}`" for choice in choices): None} if choices else {}
    for branch in branches:
        if "enum" not in branch:
            kinds = branch.get("type", "anything")
            for kind in [kinds] if isinstance(kinds, str) else kinds:
                limits = [f"{said} {branch[keyword]:.12g}" for keyword, said in _LIMITS.items() if keyword in branch]
                words[" ".join([_WORDS.get(kind, kind), ", ".join(limits)]).strip()] = None
    return " or ".join(words)


PAGES = {"commands": write_commands, "errors": write_errors, "http-api": write_http_api, "python-api": write_python_api}

if __name__ == "__main__":
    for page, write in {**PAGES, "configuration": write_configuration}.items():
        (DOCS / f"{page}.md").write_text(write().rstrip() + "\n")
