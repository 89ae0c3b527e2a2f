"""Where the request of an operation goes and what it carries: its parameters, server and credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args
from urllib.parse import unquote_plus, urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from toolyard.links.http.messages import FRAMING_HEADERS
from toolyard.model.bindings import Location, RestParameter, RestScheme, Style
from toolyard.sources.rest.document import Files, Notes, ResolvedRef, is_required, list_parameters
from toolyard.sources.rest.schemas import Node, SchemaPart, Schemas

_LOCATIONS = frozenset(get_args(Location))
_STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
_IN_BRACES = re.compile(r"\{([^{}]+)\}")
_IN_FORM = re.compile(r"\{[?&]([^{}]+)\}")
_FORM = "application/x-www-form-urlencoded"


class OperationParameter(msgspec.Struct, frozen=True):
    """One parameter as a document describes it."""

    wire: RestParameter
    """How an engine serialises it; the argument is named when the operation is planned."""
    part: SchemaPart
    node: Any
    """The schema of the argument, including the parameter's description."""
    required: bool = False


class Parameters:
    """Reads the parameters of one document; a parameter that many operations refer to is read once."""

    def __init__(self, schemas: Schemas, files: Files, notes: Notes) -> None:
        self._schemas = schemas
        self._files = files
        self._notes = notes
        self._known: dict[int, tuple[Any, OperationParameter | None]] = {}
        self._by_ref: dict[tuple[str, str], OperationParameter | None] = {}
        """By reference, since a resolved node may be a new object each time, and its notes must not repeat."""

    def collect(self, listed: ResolvedRef, place: str) -> dict[tuple[str, str], OperationParameter]:
        """The parameters of one list, by location and name."""
        found: dict[tuple[str, str], OperationParameter] = {}
        if type(listed.node) is not list:
            if listed.node:
                self._notes.add(place, "parameters are not a list; left out")
            return found
        for item in list_parameters(listed, self._files):
            parameter = self._read_entry(item, place)
            if parameter is None:
                continue
            name, location = parameter.wire.name, parameter.wire.location
            key = (location, name.lower() if location == "header" else name)
            if key in found:
                self._notes.add(place, f"parameter {name!r} is listed twice; the last one kept")
            found[key] = parameter
        return found

    def undescribed(self, name: str) -> OperationParameter:
        """A path parameter that only occurs in the path template."""
        part = self._schemas.convert({"type": "string"})
        return OperationParameter(RestParameter(argument=name, name=name, location="path"), part, part.node, True)

    def in_query(self, name: str, known: OperationParameter | None, *, required: bool) -> OperationParameter:
        """A parameter in the query of a path template, with the description of a known parameter if there is one."""
        described = known or self.undescribed(name)
        wire = replace(described.wire, name=name, location="query", style="form", explode=True, allow_reserved=False)
        return replace(described, wire=wire, required=described.required if known else required)

    def _read_entry(self, here: ResolvedRef, place: str) -> OperationParameter | None:
        raw = here.node
        if type(raw) is not dict or len(raw) > 1 or type(raw.get("$ref")) is not str:
            return self._read_once(here, place)
        key = (here.file, raw["$ref"])
        if self._by_ref.get(key) is None:
            self._by_ref[key] = self._read_once(here, place)
        return self._by_ref[key]

    def _read_once(self, here: ResolvedRef, place: str) -> OperationParameter | None:
        found = self._files.try_resolve(here)
        raw, file = found.node, found.file
        if raw is None and here.node is not None:
            return None  # The reason has already been noted.
        key = id(raw)
        if key not in self._known:
            self._known[key] = (raw, self._read_parameter(raw, file, place))
        elif self._known[key][1] is None:
            self._read_parameter(raw, file, place)  # So that each operation that loses it gets a note.
        return self._known[key][1]

    def _read_parameter(self, raw: Any, file: str, place: str) -> OperationParameter | None:
        if type(raw) is not dict or type(raw.get("name")) is not str or type(raw.get("in")) is not str:
            self._notes.add(place, "a parameter without name or place is left out")
            return None
        name, location = raw["name"], raw["in"]
        if location == "header" and name.lower() in IGNORED_HEADERS:
            self._notes.add(place, f"header parameter {name!r} is not an argument: OpenAPI says to ignore it")
            return None
        if location == "header" and name.lower() in FRAMING_HEADERS:
            self._notes.add(place, f"header parameter {name!r} is not an argument: it follows from the message itself")
            return None
        media_type, described, file = self._described_schema(raw, file)
        if location == "querystring" and media_type == _FORM:
            # The object is the whole query string, which is the same as an object in exploded form style.
            location, media_type, raw = "query", None, {**raw, "style": "form", "explode": True}
        if location not in _LOCATIONS:
            self._notes.add(place, f"parameter {name!r} in {location!r} is left out: there is no such place")
            return None
        part = self._schemas.convert(described, file)
        style = self._read_style(name, location, raw.get("style"), place)
        explode = raw.get("explode")
        wire = RestParameter(
            argument=name,
            name=name,
            location=location,
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "deepObject"),
            media_type=media_type,
            allow_reserved=raw.get("allowReserved") is True,
        )
        required = is_required(raw) or location == "path"
        return OperationParameter(wire, part, _as_argument(part.node, raw), required)

    def _described_schema(self, raw: Node, file: str) -> tuple[str | None, Any, str]:
        """The media type, the schema, and the file that the schema is in."""
        content = self._files.try_resolve(ResolvedRef(raw.get("content"), file))
        if "schema" in raw or not content.mapping:
            return None, raw.get("schema", {}), file
        media_type = next(iter(content.node))
        media = self._files.try_resolve(content.inside(media_type))
        schema = media.inside("schema")
        return str(media_type), {} if schema.node is None else schema.node, schema.file

    def _read_style(self, name: str, location: str, style: Any, place: str) -> Style:
        allowed = _STYLES[location]
        if style in allowed:
            chosen: Style = style
            return chosen
        if style is not None and (location, style) != ("cookie", "cookie"):
            problem = f"style {str(style)[:40]!r} has no meaning in a {location}; {allowed[0]!r} is used"
            self._notes.add(place, f"parameter {name!r}: {problem}")
        return allowed[0]


def _as_argument(node: Any, raw: Node) -> Any:
    """The schema with the parameter's own description, deprecation and example."""
    if type(node) is not dict:
        node = {} if node is True else {"not": {}}
    own: Node = {}
    if type(raw.get("description")) is str and raw["description"]:
        own["description"] = raw["description"]
    if raw.get("deprecated") is True:
        own["deprecated"] = True
    example = raw.get("example")
    if isinstance(example, (str, int, float)) and "examples" not in node and len(str(example)) <= 200:
        own["examples"] = [example]
    return {**node, **own} if own else node


def template_names(path: str) -> list[str] | None:
    """The names in the braces of a path; None if the braces do not match."""
    names = _IN_BRACES.findall(path)
    return names if path.count("{") == path.count("}") == len(names) else None


def split_query(path: str) -> tuple[str, list[tuple[str, str, bool]]]:
    """Split the query off a path (`?page={page}` or `{?page,size}`), as names, placeholders and whether required.

    A value that is not a single placeholder stays in the path: `?ids={first},{last}`, or one that is also in the path.
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


_SCHEMES = ("https", "http")


class Servers:
    """Reads `servers` lists; `fixed` is the operator's own base URL, which replaces all of them."""

    def __init__(self, spec_url: str | None, fixed: str | None, variables: Mapping[str, str]) -> None:
        self._spec_url = spec_url
        self._fixed = fixed.rstrip("/") if fixed else None
        self._variables = variables
        self._default = self._make_absolute("/")

    def choose_base_url(self, *lists: Any) -> tuple[str, str]:
        """The base URL from the first non-empty list, and a description of the problem if it cannot be used."""
        if self._fixed is not None:
            return self._fixed, ""
        servers = next((found for found in lists if type(found) is list and found), [])
        filled = [self._fill_variables(server) for server in servers if type(server) is dict]
        for url, problem in filled:
            if not problem and (urlsplit(url).scheme in _SCHEMES or "://" not in url):
                return self._make_absolute(url)
        return filled[0] if filled else self._default

    def _fill_variables(self, server: dict[str, Any]) -> tuple[str, str]:
        url = server.get("url")
        if type(url) is not str:
            return "", "the server has no url; give base_url=..."
        described = server.get("variables")
        variables = described if type(described) is dict else {}
        missing: list[str] = []

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name in self._variables:
                return str(self._variables[name])
            known = variables.get(name)
            known = known if type(known) is dict else {}
            enum = known.get("enum")
            choices = enum if type(enum) is list else []
            value = known.get("default", choices[0] if choices else None)
            if value is None:
                missing.append(name)
            return str(value) if value is not None else match[0]

        filled = _IN_BRACES.sub(fill, url.strip())
        if missing:
            return filled, f"the server's variable {missing[0]!r} has no default; give server_variables or base_url"
        try:
            urlsplit(filled)
        except ValueError:
            return "", "the server's url is none; give base_url=..."
        return filled, ""

    def _make_absolute(self, url: str) -> tuple[str, str]:
        if self._spec_url is not None:
            url = urljoin(self._spec_url, url)
        url = url.partition("#")[0].partition("?")[0].rstrip("/")
        parts = urlsplit(url)
        if parts.scheme in _SCHEMES and parts.hostname:
            return url, ""
        return url, "the document does not say where it is served; give base_url=..."


_KEY_LOCATIONS = ("query", "header", "cookie")


class SecurityRequirements(NamedTuple):
    """Security requirements. One of the alternatives is enough; an empty one means that no credential is needed."""

    alternatives: tuple[tuple[str, ...], ...] = ()
    schemes: dict[str, RestScheme] = {}
    unknown: Sequence[str] = ()
    """Names that the document does not define."""


_NO_REQUIREMENTS = SecurityRequirements()


class Security:
    """The security schemes of one document."""

    def __init__(self, schemes: ResolvedRef, default: Any, files: Files) -> None:
        self._schemes = files.try_resolve(schemes)
        self._default = default
        self._files = files

    def read_requirements(self, operation: dict[str, Any]) -> SecurityRequirements:
        """The requirements of an operation, by default those of the document."""
        asked = operation.get("security", self._default)
        if type(asked) is not list:
            return _NO_REQUIREMENTS
        alternatives: list[tuple[str, ...]] = []
        schemes: dict[str, RestScheme] = {}
        for item in asked:
            if type(item) is not dict:
                continue
            alternatives.append(tuple(item))
            for name, scopes in item.items():
                listed = tuple(map(str, scopes)) if type(scopes) is list else ()
                before = schemes[name].scopes if name in schemes else ()
                scheme = self._files.try_resolve(self._schemes.inside(name)).node
                schemes[name] = _read_scheme(scheme, tuple(dict.fromkeys((*before, *listed))))
        if alternatives == [()]:
            return _NO_REQUIREMENTS
        unknown = [name for name in schemes if type(self._schemes.inside(name).node) is not dict]
        return SecurityRequirements(tuple(alternatives), schemes, unknown)


def _read_scheme(raw: Any, scopes: tuple[str, ...]) -> RestScheme:
    if type(raw) is not dict:
        return RestScheme(type="other", scopes=scopes)
    kind, how = raw.get("type"), str(raw.get("scheme", "")).lower()
    if kind == "basic" or (kind == "http" and how == "basic"):
        return RestScheme(type="basic", scopes=scopes)
    if kind == "http" and how == "bearer":
        return RestScheme(type="bearer", scopes=scopes)
    if kind == "apiKey" and raw.get("in") in _KEY_LOCATIONS and type(raw.get("name")) is str:
        return RestScheme(type="api_key", location=raw["in"], name=raw["name"], scopes=scopes)
    if kind == "oauth2":
        return RestScheme(type="oauth2", token_url=_token_url(raw), scopes=scopes)
    if kind == "openIdConnect":
        # Like OAuth2, it yields a bearer token; the operator must configure where to get it.
        return RestScheme(type="oauth2", scopes=scopes)
    return RestScheme(type="other", name=how or str(kind or ""), scopes=scopes)


def _token_url(raw: dict[str, Any]) -> str | None:
    flows = raw.get("flows")
    if type(flows) is not dict:
        return raw["tokenUrl"] if type(raw.get("tokenUrl")) is str else None
    ordered = [flows.get("clientCredentials"), *flows.values()]
    urls = [flow["tokenUrl"] for flow in ordered if type(flow) is dict and type(flow.get("tokenUrl")) is str]
    return urls[0] if urls else None
