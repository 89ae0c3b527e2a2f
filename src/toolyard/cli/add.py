"""`toolyard add`: adds a URL, a file or a command to a config as a source, after finding out what it is.

The source is loaded before it is written, and the rest of the config's text is preserved.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from cyclopts import Parameter

from toolyard.app.blocks import is_config
from toolyard.app.config import hide_secrets, read_config, read_config_file
from toolyard.app.toolyard import load_sources
from toolyard.cli.options import DEFAULT_CONFIG, OUTPUT, VerbOptions, read_word
from toolyard.cli.output import counted, fail, print_json, print_text, warn, working
from toolyard.cli.yard import config_path
from toolyard.links.http.addresses import Blocked, is_public, read_address, read_url, with_port
from toolyard.links.http.auth_entry import suggest_auth
from toolyard.model.bindings import RestBinding, RestScheme
from toolyard.model.errors import ConfigError, ToolyardError
from toolyard.parsing import parse_json, parse_yaml
from toolyard.parsing.files import MAX_BYTES, read_text, replace_file
from toolyard.parsing.text_edits import append_item, find_value
from toolyard.registry import ToolRegistry
from toolyard.sources.base import recognise_document
from toolyard.sources.scripts.manifest import MANIFEST
from toolyard.words.redactor import REDACTED, Redactor, names_a_secret

_Source = dict[str, Any]
_RUNNERS = frozenset({"npx", "uvx", "pipx", "bunx", "docker", "node", "deno", "uv", "python", "python3", "run", "sh"})
_REFUSED = re.compile(r"\banswer(?:s|ed) 40[13]\b")
_BASIC = """--set 'auth={"type": "basic", "user": "${API_USER}", "password": "${API_PASSWORD}"}'"""
_PLAIN_HOSTS = ("mcp", "www", "api")


def add(
    *what: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="URL of an OpenAPI document or MCP server; a Python file, catalog, OpenAPI document, folder of "
            "scripts, or a client's mcpServers file; a Python module; or the command that starts an MCP server: "
            "`toolyard add -- npx -y @modelcontextprotocol/server-memory`.",
        ),
    ],
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"], help="Namespace of the tools.")] = None,
    option: Annotated[
        Sequence[str], Parameter(name="--set", help="Option of the source: KEY=VALUE. ${NAME} is written as it is.")
    ] = (),
    token_env: Annotated[str | None, Parameter(help="Environment variable with the token or key of the API.")] = None,
    into: Annotated[
        Path | None,
        Parameter(help="Config to change; created if it does not exist. Default: $TOOLYARD_CONFIG or ./toolyard.yaml."),
    ] = None,
    show: Annotated[bool, Parameter(name="--print", help="Print the source, change nothing.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Add a source to a config. It is loaded first, and refused if it has no tools."""
    text, path, known = _read_known(config := into or config_path(None, must_exist=False) or DEFAULT_CONFIG)
    extra = dict(_split_option(word) for word in option)
    candidates = list(_list_candidates(what, config.parent))
    if token_env is not None:
        _check_token(token_env, candidates)
    if (existing := _find_existing(candidates, namespace, known, config.parent)) is not None:
        said = f"{config}: {' '.join(what)} already exists, as {'.'.join(path)}[{existing}]"
        fail(ConfigError(f"{said}; -n with another name adds it once more"), as_json=options.json)
        return 1
    used = {str(item.get("namespace")) for item in known}
    with working(f"looking at {' '.join(what)}"):
        source, registry = _load_first(candidates, namespace, used, extra, config, token_env)
    source = _add_auth(source, registry, token_env, config)
    loaded, rejected = len(registry), len(registry.report.rejected)
    if not show:
        _write_source(config, text, path, source)
    if options.json:
        print_json({"config": str(config), "added": not show, "source": source, "tools": loaded, "rejected": rejected})
    elif show:
        print_text(yaml.safe_dump([source], sort_keys=False, allow_unicode=True).rstrip())
    else:
        found = f"{counted(loaded, 'tool')} loaded, {rejected} rejected"
        print_text(f"{config}: added a source of type {source['type']}; {found}")
        _explain_auth(source)
    _explain_reach(source, config, registry)
    return 0


def _read_known(config: Path) -> tuple[str, tuple[str, ...], list[_Source]]:
    """The config's text, the path of its sources in it, and the sources."""
    text = read_text(config) if config.exists() else ""
    document = read_config_file(config) if text.strip() else None
    if document and not is_config(document):
        raise ConfigError(f"{config}: this is a catalog, not a config; --into names another file, which is created")
    path = ("tools", "registry") if isinstance((document or {}).get("tools"), dict) else ("tools",)
    return text, path, [item if isinstance(item, dict) else {} for item in find_value(document, path) or ()]


def _write_source(config: Path, text: str, path: Sequence[str], source: _Source) -> None:
    is_json = config.suffix.lower() == ".json"
    parse = parse_json if is_json else parse_yaml
    text = "{}\n" if is_json and not text.strip() else text
    made = append_item(text, path, source, read=lambda read: parse(read, what=str(config)), what=str(config))
    config.parent.mkdir(parents=True, exist_ok=True)
    # Resolve symbolic links, as used for dotfiles, so that they are not replaced by a file.
    replace_file(config.resolve(), made.encode(), keep_mode=True)


def _find_existing(candidates: list[_Source], namespace: str | None, known: list[_Source], base: Path) -> int | None:
    """The index of an equal source in the config: with the same type and place, and no other namespace; else None."""

    def identify(source: _Source) -> _Source:
        places = {
            key: str(base.resolve() / source[key]) for key in ("path", "target", "cwd", "spec") if source.get(key)
        }
        return {key: source.get(key) or None for key in ("type", "command", "args", "url")} | places

    asked = [identify(candidate) for candidate in candidates]
    for index, item in enumerate(known):
        if identify(item) in asked and namespace in (None, item.get("namespace")):
            return index
    return None


def _split_option(word: str) -> tuple[str, Any]:
    key, given, value = word.partition("=")
    if not given:
        raise ConfigError(f"--set {word}: must be KEY=VALUE")
    return key, read_word(value)


def _load_first(
    candidates: list[_Source], namespace: str | None, used: set[str], extra: _Source, config: Path, token: str | None
) -> tuple[_Source, ToolRegistry]:
    """The first candidate that has tools, with these; raises with the reason for each if none has any.

    The token is sent only after a request without it was refused.
    """
    failures: list[str] = []
    left = deque(candidates)
    while left:
        candidate = left.popleft()
        if namespace:
            candidate["namespace"] = namespace
        elif name := candidate.get("namespace"):
            names = chain([name], (f"{name}_{number}" for number in count(2)))
            candidate["namespace"] = next(name for name in names if name not in used)
        source = {**candidate, **extra}
        try:
            read = read_config({"tools": [source]}, base=config.parent, where=str(config))
            with hide_secrets(read.secrets):
                registry, _ = load_sources(read)
            registry.close()
        except ToolyardError as error:
            if token is not None and "auth" not in source and _REFUSED.search(str(error)):
                left.appendleft({**candidate, "auth": _write_bearer(token)})
                continue
            if len(candidates) == 1:
                raise
            failures.append(f"as {source['type']}: {error}")
            continue
        if len(registry):
            return source, registry
        reasons = [item.reason for item in registry.report.rejected[:3]]
        failures.append(f"as {source['type']}: it has no tools{': ' * bool(reasons)}{'; '.join(reasons)}")
    refused = any("401" in line for line in failures)
    named = (
        f"--token-env NAME names the variable that has its token; for a user and a password: {_BASIC}"
        if token is None
        else f"the token in {token} is refused"
    )
    hint = f"\n{named}" if refused else ""
    raise ConfigError("no tools found:\n" + "\n".join(f"  {line}" for line in failures) + hint)


def _explain_reach(source: _Source, config: Path, registry: ToolRegistry) -> None:
    """Explain how to allow an API on this machine or in a private network; its document alone cannot allow that."""
    bindings = {tool.binding.base_url: tool.binding for tool in registry if isinstance(tool.binding, RestBinding)}
    refused = []
    for base_url, binding in bindings.items():
        with suppress(Blocked):  # not a callable URL
            target = read_url(base_url or "")
            name, address = with_port(target.host, target.port), read_address(target.host)
            is_private = "." not in target.host if address is None else not is_public(address)
            if is_private and not {name, target.host} & {*binding.named, *binding.allowed}:
                refused.append(name)
    if refused:
        allowed = [*source.get("allow_hosts", ()), *refused]
        shown = {**_hide_typed(source), "allow_hosts": allowed}
        written = yaml.safe_dump([shown], sort_keys=False, default_flow_style=None, allow_unicode=True)
        said = f"its calls go to {', '.join(refused)}, which is not public, and are refused until you allow it"
        said = f"{said}, by --set 'allow_hosts={json.dumps(allowed)}' when you add it, or now in {config}"
        warn(f"{said}, where its source is to be\n{indent(written.rstrip(), '  ')}")


def _hide_typed(value: Any, key: str = "") -> Any:
    """A source without credentials that were typed in; references to variables are kept."""
    if isinstance(value, dict):
        return {name: _hide_typed(item, "value" if key == "headers" else str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [_hide_typed(item, key) for item in value]
    if not isinstance(value, str) or "${" in value:
        return value
    return REDACTED if key == "value" or names_a_secret(key) else Redactor().text(value)


def _check_token(token: str, candidates: list[_Source]) -> None:
    if not (token.isascii() and token.isidentifier()):
        # Not repeated in the message, since it may be the token itself.
        raise ConfigError("--token-env takes the name of a variable, of letters, digits and _, not the token itself")
    if any("url" not in candidate and candidate["type"] != "rest" for candidate in candidates):
        raise ConfigError("--token-env is for APIs and for servers by their address")


def _write_bearer(token: str) -> dict[str, str]:
    return {"type": "bearer", "token": f"${{{token}}}"}


def _add_auth(source: _Source, registry: ToolRegistry, token: str | None, config: Path) -> _Source:
    """The source with the credential that its calls need, by its document's security schemes or by the given token."""
    bindings = [tool.binding for tool in registry if isinstance(tool.binding, RestBinding)]
    needed = next(((found, names) for found in bindings for names in found.security[:1] if names), None)
    engines = find_value(read_config_file(config) if config.exists() else None, ("tools", "engines")) or {}
    has_auth = "auth" in source or any(isinstance(one, dict) and one.get("auth") for one in engines.values())
    if token is not None and "url" in source:
        return {**source, "auth": source.get("auth", _write_bearer(token))}
    if not bindings or (token is None and (needed is None or has_auth)):
        return source
    binding, names = needed or (bindings[0], ())
    schemes: list[RestScheme | None] = [binding.schemes[name] for name in names] or [None]
    name = _make_name(str(source.get("namespace", "api"))).upper()
    # Unless a token was named, calls are sent without it until the variable is set.
    write = f"${{{{{name}_{{}}:-}}}}".format if token is None else lambda _: f"${{{token}}}"
    if token is not None and any(scheme is not None and scheme.type == "basic" for scheme in schemes):
        raise ConfigError(
            f"this API asks for a user and a password, not for a token; in place of --token-env: {_BASIC}"
        )
    if token is not None:
        schemes = [None if scheme is None or scheme.type == "oauth2" else scheme for scheme in schemes]
    entries = [entry for scheme in schemes if (entry := suggest_auth(scheme, write)) is not None]
    if len(entries) < len(schemes):
        warn("its document has '${' in what it says of credentials: no `auth` is written, as variables would be sent")
        return source
    with suppress(Blocked):
        origin = read_url(binding.base_url).origin
        # A secret is bound to an origin that only the document names.
        entries = [entry if origin in binding.origins else {**entry, "origin": origin} for entry in entries]
    if source.get("auth", entries[0]) not in entries:
        entries.insert(0, source["auth"])
    return {**source, "auth": entries[0] if len(entries) == 1 else entries}


def _explain_auth(source: _Source) -> None:
    """Say which hosts named only by the document get credentials, and which of their variables are not set."""
    given = source.get("auth") or []
    home = _find_host(str(source.get("spec")))
    for entry in [given] if isinstance(given, dict) else given:
        if host := _find_host(entry.get("origin", "")):
            print_text(f"calls and the {'token' if entry['type'] == 'bearer' else 'credential'} go to {host}")
        if (host := _find_host(entry.get("token_url", ""))) and host != home:
            print_text(f"the client's id and secret go to {host}")
    unset = [name for name in re.findall(r"\$\{(\w+)", str(source.get("auth"))) if not os.environ.get(name)]
    if unset:
        print_text(f"its calls need credentials; before you call: export {' '.join(f'{name}=...' for name in unset)}")


def _find_host(url: str) -> str:
    with suppress(ValueError):  # loading says what is wrong with it
        return urlsplit(url).netloc
    return ""


def _list_candidates(words: Sequence[str], base: Path) -> Iterator[_Source]:
    """What the words may refer to, the likeliest first."""
    if not words:
        raise ConfigError("name what to add: a URL, a file, a module, or the command of an MCP server")
    first, alone = words[0], len(words) == 1
    if alone and first.startswith(("http://", "https://")):
        yield from _list_url_candidates(first)
    elif alone and Path(first).exists():
        yield _recognise_file(Path(first), base)
    elif alone and re.fullmatch(r"[^\W\d][\w.]*", first) and _is_module(first):
        yield {"type": "python", "target": first, "namespace": first.rpartition(".")[2]}
    elif shutil.which(first):
        name = next((word for word in words if not word.startswith("-") and Path(word).name not in _RUNNERS), first)
        # Not resolved, since a virtual environment's interpreter is recognised by the place of its link.
        program = str(Path(first).absolute()) if Path(first).name != first else first
        source = {"type": "mcp", "command": program, "args": list(words[1:]), "namespace": _make_name(Path(name).stem)}
        # If arguments are files, the server must be started in the current folder.
        here = any(not Path(word).is_absolute() and Path(word).exists() for word in words[1:])
        yield {**source, **({"cwd": _write_path(Path(), base)} if here else {})}
    elif alone and (parts := _split_command(first)) and shutil.which(parts[0]):
        yield from _list_candidates(parts, base)
    else:
        raise ConfigError(f"{first!r} is not a URL, a file or folder here, a module, or a command on the PATH")


def _split_command(text: str) -> list[str]:
    """The words of a command that was quoted as a whole; none if it is no command."""
    with suppress(ValueError):
        return shlex.split(text)
    return []


def _list_url_candidates(url: str) -> Iterator[_Source]:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("the URL has no valid host") from None
    name = _name_host(parts.hostname or "")
    server = {"type": "mcp", "url": url, "namespace": name}
    # A GET to an MCP endpoint may return an endless stream.
    speaks_mcp = parts.path.rstrip("/").endswith(("/mcp", "/sse"))
    if speaks_mcp:
        yield server
    yield {"type": "rest", "spec": url, "namespace": name}
    if not parts.path.strip("/"):
        yield {"type": "rest", "spec": f"{url.rstrip('/')}/openapi.json", "namespace": name}
    if not speaks_mcp:
        yield server


def _recognise_file(path: Path, base: Path) -> _Source:
    name, place = _make_name(path.resolve().stem), _write_path(path, base)
    if path.is_dir():
        if not (path / MANIFEST).is_file():
            raise ConfigError(f"{path}: has no {MANIFEST}; `toolyard manifest init {path}` allows the scripts in it")
        return {"type": "scripts", "path": place, "namespace": name}
    if path.suffix == ".py":
        return {"type": "python", "target": place, "namespace": name}
    if path.suffix.lower() not in (".json", ".yaml", ".yml", ".jsonl", ".ndjson") and os.access(path, os.X_OK):
        return {"type": "mcp", "command": str(path.resolve()), "namespace": name}
    document = read_config_file(path, MAX_BYTES)
    kind = recognise_document(document)
    if kind == "rest":
        return {"type": kind, "spec": place, "namespace": name}
    if kind is not None:
        return {"type": kind, "path": place}
    if is_config(document):
        raise ConfigError(f"{path}: this is a config itself; copy the sources that you want from it")
    return {"type": "file", "path": place}


def _write_path(path: Path, base: Path) -> str:
    """The path relative to the config's folder if the file is inside it, else absolute."""
    absolute, folder = path.resolve(), base.resolve()
    return absolute.relative_to(folder).as_posix() if absolute.is_relative_to(folder) else str(absolute)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _name_host(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = [label for label in host.split(".") if label not in _PLAIN_HOSTS]
        return _make_name(labels[0] if labels else host)
    return "local"


def _make_name(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_") or "tools"
