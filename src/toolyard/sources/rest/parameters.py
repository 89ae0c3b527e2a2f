"""Parameters: where each goes, how it is written there, and which of two with one name an operation means."""

from __future__ import annotations

import re
from typing import Any, get_args
from urllib.parse import unquote_plus

from toolyard.model.bindings import Location, RestParameter, Style
from toolyard.sources.rest.document import Files, Notes, ResolvedRef, list_parameters
from toolyard.sources.rest.schemas import Node, SchemaPart, Schemas

_LOCATIONS = frozenset(get_args(Location))
_STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
_OURS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers that follow from the message itself: nobody else can know them."""
_IN_BRACES = re.compile(r"\{([^{}]+)\}")
_IN_FORM = re.compile(r"\{[?&]([^{}]+)\}")
_FORM = "application/x-www-form-urlencoded"


class OperationParameter:
    """One parameter as a document describes it."""

    style: Style = "simple"
    explode = False
    media_type: str | None = None
    reserved = False
    required = False

    def __init__(self, name: str, location: Location, part: SchemaPart, node: Any) -> None:
        self.name = name
        self.location = location
        self.part = part
        self.node = node
        """The schema as an argument has it: with the parameter's own description."""

    def bound(self, argument: str) -> RestParameter:
        """The parameter as an engine reads it."""
        return RestParameter(
            argument=argument,
            name=self.name,
            location=self.location,
            style=self.style,
            explode=self.explode,
            media_type=self.media_type,
            allow_reserved=self.reserved,
        )


class Parameters:
    """Reads the parameters of one document; one that many operations refer to is read once."""

    def __init__(self, schemas: Schemas, files: Files, notes: Notes) -> None:
        self._schemas = schemas
        self._files = files
        self._notes = notes
        self._known: dict[int, tuple[Any, OperationParameter | None]] = {}
        self._by_ref: dict[tuple[str, str], OperationParameter | None] = {}
        """What is referred to may be put together anew each time; what is to be said of it is said once."""

    def collect(self, listed: ResolvedRef, place: str) -> dict[tuple[str, str], OperationParameter]:
        """The parameters of one list, by location and name."""
        found: dict[tuple[str, str], OperationParameter] = {}
        if type(listed.node) is not list:
            if listed.node is not None:
                self._notes.add(place, "parameters are not a list; left out")
            return found
        for item in list_parameters(listed, self._files):
            parameter = self._read_entry(item, place)
            if parameter is None:
                continue
            name = parameter.name.lower() if parameter.location == "header" else parameter.name
            key = (parameter.location, name)
            if key in found:
                self._notes.add(place, f"parameter {parameter.name!r} is listed twice; the last one kept")
            found[key] = parameter
        return found

    def undescribed(self, name: str) -> OperationParameter:
        """A path parameter that only the path itself tells of."""
        part = self._schemas.convert({"type": "string"})
        parameter = OperationParameter(name, "path", part, part.node)
        parameter.required = True
        return parameter

    def in_query(self, name: str, known: OperationParameter | None, *, required: bool) -> OperationParameter:
        """A parameter that a path has in its query, by what is known of it as another's or not at all."""
        described = known or self.undescribed(name)
        parameter = OperationParameter(name, "query", described.part, described.node)
        parameter.media_type, parameter.style, parameter.explode = described.media_type, "form", True
        parameter.required = described.required if known else required
        return parameter

    def _read_entry(self, here: ResolvedRef, place: str) -> OperationParameter | None:
        raw = here.node
        if type(raw) is not dict or len(raw) > 1 or type(raw.get("$ref")) is not str:
            return self._read_once(here, place)
        key = (here.file, raw["$ref"])
        if self._by_ref.get(key) is None:
            self._by_ref[key] = self._read_once(here, place)
        return self._by_ref[key]

    def _read_once(self, here: ResolvedRef, place: str) -> OperationParameter | None:
        found = self._files.settle(here)
        raw, file = found.node, found.file
        if raw is None and here.node is not None:
            return None  # It has been noted why.
        key = id(raw)
        if key not in self._known:
            self._known[key] = (raw, self._read_parameter(raw, file, place))
        elif self._known[key][1] is None:
            self._read_parameter(raw, file, place)  # So that each operation that loses it says so.
        return self._known[key][1]

    def _read_parameter(self, raw: Any, file: str, place: str) -> OperationParameter | None:
        if type(raw) is not dict or type(raw.get("name")) is not str or type(raw.get("in")) is not str:
            self._notes.add(place, "a parameter without name or place is left out")
            return None
        name, location = raw["name"], raw["in"]
        if location == "header" and name.lower() in IGNORED_HEADERS:
            self._notes.add(place, f"header parameter {name!r} is not an argument: OpenAPI says to ignore it")
            return None
        if location == "header" and name.lower() in _OURS:
            self._notes.add(place, f"header parameter {name!r} is not an argument: it follows from the message itself")
            return None
        media_type, described, file = self._described_schema(raw, file)
        if location == "querystring" and media_type == _FORM:
            # The whole query is this object, which is what an exploded form of an object looks like.
            location, media_type, raw = "query", None, {**raw, "style": "form", "explode": True}
        if location not in _LOCATIONS:
            self._notes.add(place, f"parameter {name!r} in {location!r} is left out: there is no such place")
            return None
        part = self._schemas.convert(described, file)
        parameter = OperationParameter(name, location, part, _as_argument(part.node, raw))
        parameter.media_type = media_type
        parameter.required = raw.get("required") is True or location == "path"
        parameter.reserved = raw.get("allowReserved") is True
        self._write_style(parameter, raw, place)
        return parameter

    def _described_schema(self, raw: Node, file: str) -> tuple[str | None, Any, str]:
        """The media type and the schema; where that lies."""
        content = self._files.settle(ResolvedRef(raw.get("content"), file))
        if "schema" in raw or type(content.node) is not dict or not content.node:
            return None, raw.get("schema", {}), file
        media_type = next(iter(content.node))
        media = self._files.settle(content.inside(media_type))
        schema = media.inside("schema")
        return str(media_type), {} if schema.node is None else schema.node, schema.file

    def _write_style(self, parameter: OperationParameter, raw: Node, place: str) -> None:
        allowed = _STYLES[parameter.location]
        style = raw.get("style")
        if style in allowed:
            parameter.style = style
        else:
            parameter.style = allowed[0]
            if style is not None and (parameter.location, style) != ("cookie", "cookie"):
                said = f"style {str(style)[:40]!r} has no meaning in a {parameter.location}; {allowed[0]!r} is used"
                self._notes.add(place, f"parameter {parameter.name!r}: {said}")
        explode = raw.get("explode")
        parameter.explode = explode if isinstance(explode, bool) else parameter.style in ("form", "deepObject")


def _as_argument(node: Any, raw: Node) -> Any:
    """The schema with what the parameter says about itself."""
    if type(node) is not dict:
        node = {} if node is True else {"not": {}}
    said: Node = {}
    if type(raw.get("description")) is str and raw["description"]:
        said["description"] = raw["description"]
    if raw.get("deprecated") is True:
        said["deprecated"] = True
    example = raw.get("example")
    if isinstance(example, (str, int, float)) and "examples" not in node and len(str(example)) <= 200:
        said["examples"] = [example]
    return {**node, **said} if said else node


def template_names(path: str) -> list[str] | None:
    """What stands in braces in a path; None if the braces do not pair."""
    names = _IN_BRACES.findall(path)
    return names if path.count("{") == path.count("}") == len(names) else None


def split_query(path: str) -> tuple[str, list[tuple[str, str, bool]]]:
    """A path without what its query asks for, `?page={page}` or `{?page,size}`; and names, places, whether needed.

    What holds more than a place stays: `?ids={first},{last}`, or a value that the path has too.
    """
    names = [name.strip(" *") for group in _IN_FORM.findall(path) for name in group.split(",")]
    asked = [(name, name, False) for name in names]
    own, _, query = _IN_FORM.sub("", path).partition("?")
    kept: list[str] = []
    for pair in query.split("&") if query else ():
        name, _, value = pair.partition("=")
        place = _IN_BRACES.fullmatch(value)
        if place and "{" not in name and value not in own:
            asked.append((unquote_plus(name), place[1], True))
        else:
            kept.append(pair)
    return f"{own}?{'&'.join(kept)}" if kept else own, asked
