"""Change one value in JSON, TOML or YAML text and keep every other byte, comments included.

Each edit is verified by parsing the result: it must equal the old document with the change applied. If it does not,
because the text is written in an unusual form, the edit raises `ConfigError`.
"""

from __future__ import annotations

import copy
import json
import math
import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.tokens import FlowEntryToken

from toolyard.model.errors import ConfigError, MalformedSource
from toolyard.parsing.json_text import parse_json
from toolyard.parsing.locations import JsonItem, iter_items, pass_blanks
from toolyard.parsing.yaml_text import CORE_TAG, plain_scalar

Path = Sequence[str]

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*[\]}}])")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TABLE_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_INDENT = "  "


class TextFormat(NamedTuple):
    """How text in one format is parsed and edited; `write` and `erase` may be wrong: `_verify_edit` finds out."""

    read: Callable[[str, str], Any]
    write: Callable[[str, Path, Any], str]
    erase: Callable[[str, Path], str]


def write_value(form: TextFormat, text: str, path: Path, value: Any, *, what: str) -> str:
    """The text with `value` at the path, replacing an existing value or added after the last member."""
    expected = copy.deepcopy(form.read(text, what))
    if find_value(expected, path) == value:
        return text
    _descend(expected, path[:-1], what)[path[-1]] = value
    return _verify_edit(form, form.write(text, path, value), expected, what)


def erase_value(form: TextFormat, text: str, path: Path, *, what: str) -> str:
    """The text without the value at the path, and without parents that this leaves empty."""
    expected = copy.deepcopy(form.read(text, what))
    while len(path) > 1 and len(_descend(expected, path[:-1], what)) == 1:
        path = path[:-1]
    del _descend(expected, path[:-1], what)[path[-1]]
    return _verify_edit(form, form.erase(text, path), expected, what)


def find_value(document: Any, path: Path) -> Any:
    """The value at the path; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _descend(document: Any, path: Path, what: str) -> Any:
    for depth, key in enumerate(["", *path]):
        document = document.setdefault(key, {}) if depth else document
        if not isinstance(document, dict):
            raise MalformedSource(f"{'.'.join(path[:depth]) or 'the document'} is not an object to add to", where=what)
    return document


def _verify_edit(form: TextFormat, text: str, expected: Any, what: str) -> str:
    try:
        if form.read(text, what) == expected:
            return text
    except MalformedSource:
        pass
    raise ConfigError(f"{what}: is written in a way that cannot be changed safely; nothing was changed, do it by hand")


def newline_of(text: str) -> str:
    """The line ending of the text."""
    return "\r\n" if "\r\n" in text else "\n"


def _read_json(text: str, what: str) -> Any:
    return parse_json(_blank_comments(text, commas=True), what=what) if text.strip("\ufeff \t\r\n") else {}


def _blank_comments(text: str, *, commas: bool) -> str:
    """The text with comments, and trailing commas if `commas`, overwritten by spaces; offsets stay the same."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] else re.sub(r"[^\r\n]", " ", match[0])

    text = _COMMENT.sub(blank, text)
    return _LAST_COMMA.sub(blank, text) if commas else text


def _list_items(plain: str, at: int) -> tuple[list[JsonItem], int]:
    """The members of the object that begins at `at`, and the offset of its closing bracket."""
    items = list(iter_items(plain, at))
    return items, pass_blanks(plain, items[-1].end if items else at + 1)


def _write_json(text: str, path: Path, value: Any) -> str:
    text = text if text.strip("\ufeff \t\r\n") else f"{text}{{}}\n"
    plain = _blank_comments(text, commas=True)
    at = pass_blanks(plain, 0)
    for depth, key in enumerate(path):
        items, close = _list_items(plain, at)
        found = next((item for item in items if item.key == key), None)
        if found is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert_member(text, at, items, close, key, value)
        at, end = found.value, found.end
    return text[:at] + _dump_json(value, text, _line_indent(text, at)) + text[end:]


def _insert_member(text: str, at: int, items: list[JsonItem], close: int, key: str, value: Any) -> str:
    """Insert the member on a separate line, after all others and their comments."""
    outer = _line_indent(text, at)
    inner = _line_indent(text, items[0].start) if items else ""
    inner = inner or outer + _indent_unit(text)
    member = f"{newline_of(text)}{inner}{json.dumps(key, ensure_ascii=False)}: {_dump_json(value, text, inner)}"
    place = len(text[:close].rstrip())
    if not items:
        return text[:place] + member + newline_of(text) + outer + text[close:]
    comma = "," in _blank_comments(text, commas=False)[items[-1].end : close]
    kept = text[items[-1].end : place]
    return text[: items[-1].end] + ("" if comma else ",") + kept + member + ("," if comma else "") + text[place:]


def _dump_json(value: Any, text: str, indent: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=_indent_unit(text)).replace("\n", newline_of(text) + indent)


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _indent_unit(text: str) -> str:
    """The text's indentation for one level."""
    return min(re.findall(r"^[ \t]+(?=[\"}\]])", text, re.MULTILINE), key=len, default=_INDENT)


def _erase_json(text: str, path: Path) -> str:
    bare, plain = _blank_comments(text, commas=False), _blank_comments(text, commas=True)
    at = pass_blanks(plain, 0)
    for key in path:
        items, close = _list_items(plain, at)
        index = next(index for index, item in enumerate(items) if item.key == key)
        at = items[index].value
    item, follows = items[index], items[index + 1].start if index + 1 < len(items) else close
    comma = bare.find(",", item.end, follows)
    start = len(text[: item.start].rstrip())
    text = text[:start] + text[(item.end if comma < 0 else comma + 1) :]
    if comma < 0 and index:
        before = bare.rindex(",", items[index - 1].end, item.start)
        text = text[:before] + text[before + 1 :]
    return text


def _read_toml(text: str, what: str) -> Any:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise MalformedSource(f"is no TOML: {error}", where=what) from error


def _toml_key(path: Path) -> str:
    return ".".join(key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in path)


def _write_toml(text: str, path: Path, value: Any) -> str:
    """Write the value as a table, in its old place or at the end; nested tables follow it."""
    tables = [(path, value), *(((*path, key), item) for key, item in value.items() if isinstance(item, dict))]
    lines = []
    for place, table in tables:
        lines += ["", f"[{_toml_key(place)}]"]
        lines += [
            f"{_toml_key([k])} = {json.dumps(v, ensure_ascii=False)}" for k, v in table.items() if type(v) is not dict
        ]
    span = _find_table(text, path)
    made = newline_of(text).join(lines[1:])
    if span is not None:
        return text[: span[0]] + made + text[span[1] :]
    end = newline_of(text)
    return text + (end if text and not text.endswith("\n") else "") + (end if text.strip() else "") + made + end


def _find_table(text: str, path: Path) -> tuple[int, int] | None:
    """The span from the table's header to the end of its last line, nested tables included; None if there is none."""
    forms = [(key, json.dumps(key, ensure_ascii=False), f"'{key}'") for key in path]
    keys = r"\s*\.\s*".join(f"(?:{'|'.join(map(re.escape, spelt))})" for spelt in forms)
    own = re.compile(rf"[ \t]*\[\s*{keys}\s*[.\]]")
    headers = [match.start() for match in _TABLE_HEADER.finditer(text)]
    mine = [own.match(text, at) is not None for at in headers]
    if True not in mine:
        return None
    first = mine.index(True)
    after = next((at for at, of_it in zip(headers[first:], mine[first:], strict=True) if not of_it), len(text))
    body = re.sub(r"(?:\s*^[ \t]*(?:#[^\n]*)?$)*\s*\Z", "", text[headers[first] : after], flags=re.MULTILINE)
    return headers[first], headers[first] + len(body)


def _erase_toml(text: str, path: Path) -> str:
    span = _find_table(text, path)
    if span is None:
        return text
    before, after = text[: span[0]], text[span[1] :].removeprefix("\r").removeprefix("\n")
    end = newline_of(text)
    return (before.removesuffix(end) if before.endswith(end * 2) else before) + after


JSONC = TextFormat(_read_json, _write_json, _erase_json)
"""JSON, and JSON with comments and trailing commas, as in editor settings."""
TOML = TextFormat(_read_toml, _write_toml, _erase_toml)


def append_item(text: str, path: Sequence[str], item: Any, *, read: Callable[[str], Any], what: str) -> str:
    """JSON or YAML text with `item` appended to the list at the path, which is created if missing.

    The result is verified by parsing it with `read`. JSON stays JSON.
    """
    expected = copy.deepcopy(read(text)) or {}
    holder = expected
    for key in path[:-1]:
        holder = holder[key]
    there = holder.get(path[-1])
    where, line = ".".join(path), json.dumps(item, ensure_ascii=False)
    if not isinstance(there, list | None):
        raise ConfigError(f"{what}: {where} is not a list, so this cannot be added to it: {line}")
    holder[path[-1]] = [*(there or []), item]
    for append in (_append_json, _append_yaml):
        try:
            made = append(text, path, item)
            if read(made) == expected:
                return made
        except (yaml.YAMLError, MalformedSource, _UnusualError):
            continue
    raise ConfigError(f"{what}: {where} is written in a way that cannot be added to safely; add this by hand: {line}")


class _UnusualError(Exception):
    """The text is valid, but written in a form that cannot be edited."""


def _append_json(text: str, path: Sequence[str], item: Any) -> str:
    at = end = pass_blanks(text, 0)
    if text[at : at + 1] != "{":
        raise _UnusualError
    try:
        for key in path:
            # Parse all members: a text that begins like JSON may still be YAML after the key.
            found = next((member for member in _list_items(text, at)[0] if member.key == key), None)
            if found is None:
                return _write_json(text, path, [item])
            at, end = found.value, found.end
    except (ValueError, IndexError):
        raise _UnusualError from None  # a YAML flow mapping
    first, place = pass_blanks(text, at + 1), len(text[: end - 1].rstrip())
    if text[at] != "[" or place <= first:
        return _write_json(text, path, [item])
    if "\n" not in text[at:first]:
        return f"{text[:place]}, {json.dumps(item, ensure_ascii=False)}{text[place:]}"
    indent = _line_indent(text, first)
    return f"{text[:place]},{newline_of(text)}{indent}{_dump_json(item, text, indent)}{text[place:]}"


class _Dumper(yaml.SafeDumper):
    """Quotes texts that are something else in YAML 1.2, such as 1e3, and unusual line ends; PyYAML goes by YAML 1.1."""

    def represent_text(self, text: str) -> ScalarNode:
        try:
            is_text = text.isprintable() and plain_scalar(text) == text
        except ValueError:
            is_text = False
        return self.represent_scalar(f"{CORE_TAG}str", text, style=None if is_text else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def _append_yaml(text: str, path: Sequence[str], item: Any) -> str:
    lines: list[str] = yaml.dump(
        item, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=math.inf
    ).splitlines()
    lines = [f"{'  ' if index else '- '}{line}" for index, line in enumerate(lines)]
    node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None or isinstance(node, ScalarNode):
        keys = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
        made = [*keys, *(f"{'  ' * len(path)}{line}" for line in lines)]
        start = newline_of(text) if text and not text.endswith("\n") else ""
        return text + start + "".join(f"{line}{newline_of(text)}" for line in made)
    for key in path:
        if not isinstance(node, MappingNode):
            raise _UnusualError
        found = next((value for name, value in node.value if name.value == key), None)
        if found is None:
            if node.flow_style:
                raise _UnusualError
            return _insert_lines(
                text, _line_end(text, node), node.start_mark.column, [f"{key}:", *_indent_lines(lines)]
            )
        name, node = next((name, value) for name, value in node.value if name.value == key)
    if isinstance(node, SequenceNode) and node.flow_style:
        return _append_flow(text, node.start_mark.index + 1, node.end_mark.index - 1, item)
    if isinstance(node, SequenceNode):
        return _insert_lines(text, _line_end(text, node), node.start_mark.column, lines)
    if not isinstance(node, ScalarNode):
        raise _UnusualError
    # The value is empty or `null`.
    text = text[: node.start_mark.index] + text[node.end_mark.index :]
    return _insert_lines(text, _line_end(text, name), name.start_mark.column, _indent_lines(lines))


def _append_flow(text: str, start: int, close: int, item: Any) -> str:
    """Append after the last item's comment as well, since a comment extends to the end of its line."""
    tokens = [token for token in yaml.scan(text, Loader=yaml.SafeLoader) if start <= token.start_mark.index < close]
    last = tokens[-1].end_mark.index if tokens else start
    comma = "," if tokens and not isinstance(tokens[-1], FlowEntryToken) else ""
    place = len(text[:close].rstrip())
    gap = newline_of(text) + _line_indent(text, last) if "#" in text[last:place] else " " if tokens else ""
    return text[:last] + comma + text[last:place] + gap + json.dumps(item, ensure_ascii=False) + text[place:]


def _indent_lines(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _insert_lines(text: str, place: int, column: int, lines: list[str]) -> str:
    end = newline_of(text)
    added = "".join(f"{end}{' ' * column}{line}" for line in lines)
    return text[:place] + added + (text[place:] or end)


def _line_end(text: str, node: Node) -> int:
    """The end of the line with the node's last token. Comments are not tokens; those on later lines stay below."""
    first, after = node.start_mark.index, node.end_mark.index
    tokens = yaml.scan(text, Loader=yaml.SafeLoader)
    ends = [token.end_mark.index for token in tokens if first <= token.start_mark.index < token.end_mark.index <= after]
    # A block scalar's end mark is after the empty lines that follow it.
    end = len(text[: ends[-1]].rstrip())
    newline = text.find("\n", end)
    if newline < 0:
        return len(text)
    return newline - (text[newline - 1] == "\r")
