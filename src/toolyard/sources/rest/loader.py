"""`RESTToolLoader`: the operations of an OpenAPI or Swagger document as tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.links.http.addresses import read_base_url, read_url, with_port
from toolyard.links.http.auth_entry import join_credentials, read_auth
from toolyard.model.errors import ConfigError, MalformedSource
from toolyard.model.names import check_namespace, describe_idle
from toolyard.model.tool import Tool
from toolyard.parsing import read_bytes
from toolyard.schema.admission import AdmittedTool
from toolyard.schema.common_options import AllowHosts, locate_unless_url
from toolyard.schema.options import expand_place, read_arguments
from toolyard.sources.base import Intake, ToolLoader
from toolyard.words.redactor import CredentialFinder, find_credentials

if TYPE_CHECKING:
    from toolyard.sources.rest.reader import ReaderSettings


_log = logging.getLogger(__name__)

_KEYS = ("tags", "paths", "methods", "operations")


class Selection:
    """Rules that select operations. In a rule every key must match, by any of its patterns.

    `include={"tags": ["pets"], "methods": ["GET"]}` selects operations with the tag and the method; a list of rules
    selects operations that match any of them. Patterns are shell-style (`/pets/*`, `get*`) and case-sensitive, except
    for methods.
    """

    def __init__(self, include: Any = None, exclude: Any = None) -> None:
        self._include = _read_rules("include", include)
        self._exclude = _read_rules("exclude", exclude)
        self._seen: dict[str, set[str]] = {key: set() for key in _KEYS}

    def selects(self, method: str, path: str, operation: Mapping[str, Any]) -> bool:
        """Whether to load the operation."""
        tags = operation.get("tags")
        facts = {
            "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
            "paths": [path],
            "methods": [method.upper()],
            "operations": [str(operation.get("operationId", ""))],
        }
        for key, values in facts.items():
            self._seen[key].update(values)
        included = not self._include or any(_rule_matches(rule, facts) for rule in self._include)
        return included and not any(_rule_matches(rule, facts) for rule in self._exclude)

    def list_idle(self) -> list[str]:
        """The patterns that matched none of the operations so far, which are usually misspelt."""
        return [
            text
            for option, rules in (("include", self._include), ("exclude", self._exclude))
            for rule in rules
            for key, patterns in rule.items()
            for text in describe_idle(f"{option}.{key}", patterns, self._seen[key], "operation")
        ]


def _rule_matches(rule: Mapping[str, tuple[str, ...]], facts: Mapping[str, list[str]]) -> bool:
    return all(
        any(fnmatchcase(fact, pattern) for fact in facts[key] for pattern in patterns) for key, patterns in rule.items()
    )


def _read_rules(option: str, given: Any) -> list[dict[str, tuple[str, ...]]]:
    rules = given if isinstance(given, (list, tuple)) else [given]
    return [] if given is None else [_read_rule(option, rule) for rule in rules]


def _read_rule(option: str, rule: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(rule, Mapping) or not rule:
        raise ConfigError(f"{option} takes a mapping with some of {', '.join(_KEYS)}, or a list of such mappings")
    found: dict[str, tuple[str, ...]] = {}
    for key, patterns in rule.items():
        if key not in _KEYS:
            raise ConfigError(f"{option} knows no {key!r}; use {', '.join(_KEYS)}")
        texts = [patterns] if isinstance(patterns, str) else list(patterns or ())
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{key!r} of {option} takes a pattern or a list of patterns")
        found[key] = tuple(text.upper() if key == "methods" else text for text in texts)
    return found


MAX_BYTES = 64 * 1024 * 1024
_SCHEMES = ("http", "https")


Spec = Annotated[
    str | Path | Mapping[str, Any],
    Meta(extra={"locate": locate_unless_url}, description="The OpenAPI document, or its file or URL."),
]
BaseUrl = Annotated[str | None, Meta(description="Base URL of the service, in place of the one in the document.")]
Rules = Annotated[
    Any,
    Meta(
        description="Operations to load: one rule or a list of rules with patterns for tags, paths, "
        "methods, operations."
    ),
]
ServerVariables = Annotated[
    Mapping[str, str] | None, Meta(description="Values of the variables in the document's server URL.")
]
DocumentHeaders = Annotated[Mapping[str, str] | None, Meta(description="Headers of the request for the document.")]
DocumentAuth = Annotated[
    Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    Meta(
        description="One credential or several, as in the engine `rest`: for the document and, unless the "
        "source names an engine with its own `auth`, for the calls."
    ),
]
DocumentBytes = Annotated[int, Meta(ge=1, description="Maximum bytes of the document and the files it refers to.")]
RefRoot = Annotated[
    str | Path | None,
    Meta(
        extra={"locate": locate_unless_url},
        description="Folder that references may reach; by default that of the document.",
    ),
]


class RESTToolLoader(ToolLoader):
    """Loads the operations of an OpenAPI 3.0 to 3.2 or Swagger 2.0 document, in JSON or YAML, from a file or a URL.

    Every operation becomes a tool or a reported rejection; what was changed or left out is reported too. The schemas of
    a tool are built on first access.

    `base_url` replaces all servers of the document. `include` and `exclude` take rules such as `{"tags": [...],
    "paths": ["/pets/*"], "methods": ["GET"], "operations": ["get*"]}`. References to files are followed within
    `ref_root`, by default the document's folder; references to URLs never are. `headers` and `auth` are sent with the
    request for the document; in a config, `auth` is also used for calls, unless the engine has its own.
    `allow_hosts` lists further private hosts that may be called.
    """

    def __init__(
        self,
        spec: Spec,
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        base_url: BaseUrl = None,
        *,
        include: Rules = None,
        exclude: Annotated[Any, Meta(description="Operations to skip, in the same form.")] = None,
        server_variables: ServerVariables = None,
        headers: DocumentHeaders = None,
        auth: DocumentAuth = None,
        timeout: Annotated[float, Meta(gt=0, description="Seconds that fetching the document may take.")] = 30.0,
        max_bytes: DocumentBytes = MAX_BYTES,
        allow_hosts: AllowHosts = (),
        ref_root: RefRoot = None,
        namespaces: str = "open",
        on_error: str = "skip",
        on_duplicate: str = "raise",
    ) -> None:
        self.spec = spec if isinstance(spec, Mapping) else expand_place(spec, "spec")
        self.namespace = namespace
        limits: dict[str, Any] = {"timeout": timeout, "max_bytes": max_bytes, "allow_hosts": allow_hosts}
        sent = {"server_variables": server_variables, "headers": headers}
        read = read_arguments(RESTToolLoader, base_url=base_url, **limits, **sent)
        base: str | None = read["base_url"]
        self.base_url = None if base is None else read_base_url(expand_place(base, "base_url"), "base_url")
        self._selection = Selection(include, exclude)
        self._variables = dict(read["server_variables"] or {})
        self._headers = dict(read["headers"] or {})
        self._auth = read_auth(auth, "auth")
        self._timeout: float = read["timeout"]
        self._max_bytes: int = read["max_bytes"]
        self._allow_hosts = tuple(read["allow_hosts"])
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        check_namespace(namespace)
        self._url: str | None = None
        self._path: Path | None = None
        if not isinstance(self.spec, Mapping):
            self._set_place(self.spec)
        root = self._path.parent if self._path is not None else None
        self._root = root if ref_root is None else Path(expand_place(ref_root, "ref_root"))
        if isinstance(self.spec, Mapping) and self._root is not None:
            self._path = self._root / "document"  # no file, but where its references begin

    def _set_place(self, spec: str | Path) -> None:
        text = str(spec)
        try:
            parts = urlsplit("" if isinstance(spec, Path) else text)
        except ValueError:
            raise ConfigError("the address of a spec has no valid host") from None
        self._url = text if parts.scheme in _SCHEMES else None
        if self._url is None and "://" in text:
            raise ConfigError(f"spec {text[:80]!r} is neither a file nor an http(s) address")
        if self._url is not None and parts.username is not None:
            raise ConfigError("the address of a spec may not hold a user or password; give headers=... instead")
        self._path = None if self._url is not None else Path(spec)

    @property
    def source(self) -> str:
        """The file or URL as given, without a query; of a document itself its title."""
        if isinstance(self.spec, Mapping):
            info = self.spec.get("info")
            return f"OpenAPI document {info.get('title')!r}" if isinstance(info, Mapping) else "OpenAPI document"
        return str(self.spec) if self._url is None else self._url.partition("?")[0]

    def load(self) -> list[Tool]:
        """Every operation of the document; `report` lists what was changed or left out."""
        # Imported late: a config may create this loader long before a document is read.
        from toolyard.sources.rest.document import Notes, read_text
        from toolyard.sources.rest.reader import Reader

        data, sent = self._read_document()
        intake = Intake(self, noun="operation")
        notes = Notes(self.source)
        document, overlooked = read_text(data, self.source)
        # A server may repeat in its document what was sent to get it, and every caller sees what tools are made of.
        document = CredentialFinder(sent).hide(document)
        for note in overlooked:
            notes.add("", note)
        reader = Reader(document, self._make_settings(), notes)
        for tool, place in reader.tools(intake.reject):
            intake.add(AdmittedTool(tool, place=place))
        for text in self._selection.list_idle():
            _log.warning("%s: %s", self.source, text)
        intake.rewrites.extend(notes.rewrites(reader.files.roots))
        return intake.finish()

    def _read_document(self) -> tuple[bytes, list[str]]:
        """The document, and the credentials that were sent to get it."""
        if self._url is not None:
            from toolyard.sources.rest.document import fetch_document

            origin = read_url(self._url).origin
            # With an explicit `base_url`, a credential without an origin is for that origin.
            is_home = self.base_url is None or read_url(self.base_url).origin == origin
            credential = join_credentials(
                [entry for entry in self._auth if entry.may_be_sent_to(origin, is_home)], origin
            )
            limits: dict[str, Any] = {"timeout": self._timeout, "max_bytes": self._max_bytes}
            data = fetch_document(self._url, headers=self._headers, credential=credential, **limits)
            named = [*self._headers.items(), *parse_qsl(urlsplit(self._url).query)]
            sent = [part for item in named for part in find_credentials(*item)]
            return data, [*sent, *(() if credential is None else credential.secrets)]
        if isinstance(self.spec, Mapping):
            try:
                return msgspec.json.encode(self.spec), []
            except (TypeError, ValueError, RecursionError) as error:
                raise MalformedSource(f"spec cannot be written as JSON: {error}", where=self.source) from None
        assert self._path is not None
        return read_bytes(self._path, max_bytes=self._max_bytes), []

    def _make_settings(self) -> ReaderSettings:
        from toolyard.sources.rest.reader import ReaderSettings

        targets = [read_url(url) for url in (self._url, self.base_url) if url]
        return ReaderSettings(
            source=self.source,
            namespace=self.namespace,
            path=self._path,
            root=self._root,
            url=self._url,
            base_url=self.base_url,
            variables=self._variables,
            named=tuple(dict.fromkeys(with_port(target.host, target.port) for target in targets)),
            origins=tuple(dict.fromkeys(target.origin for target in targets)),
            allowed=self._allow_hosts,
            selects=self._selection.selects,
            max_bytes=self._max_bytes,
        )
