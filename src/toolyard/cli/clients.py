"""`toolyard install` and `uninstall`: adds a yard to the MCP servers that a client starts, and removes it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from toolyard.app.blocks import is_config
from toolyard.app.config import read_anything, read_config_file
from toolyard.app.toolyard import check_config
from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import NotFoundError, print_json, print_text, warn
from toolyard.cli.yard import config_path
from toolyard.model.errors import ConfigError
from toolyard.parsing.files import file_of, read_text, replace_file
from toolyard.parsing.text_edits import JSONC, TOML, TextFormat, erase_value, find_value, write_value
from toolyard.schema.options import VARIABLE


class Client(NamedTuple):
    """A program that starts MCP servers, and its config file."""

    title: str
    folder: str
    file: str
    key: str = "mcpServers"
    form: TextFormat = JSONC
    typed: bool = False
    """True if entries state their transport type."""


ClientName = Literal["claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini-cli"]
CLIENTS: dict[ClientName, Client] = {
    "claude-desktop": Client("Claude Desktop", "settings", "Claude/claude_desktop_config.json"),
    "claude-code": Client("Claude Code", "CLAUDE_CONFIG_DIR", ".claude.json", typed=True),
    "cursor": Client("Cursor", "home", ".cursor/mcp.json"),
    "vscode": Client("VS Code", "settings", "Code/User/mcp.json", "servers", typed=True),
    "codex": Client("Codex", "CODEX_HOME", "config.toml", "mcp_servers", TOML),
    "gemini-cli": Client("Gemini CLI", "home", ".gemini/settings.json"),
}
_FOLDERS = {
    "home": ("~", "~", "~"),
    "settings": ("${XDG_CONFIG_HOME:-~/.config}", "~/Library/Application Support", "${APPDATA:-~/AppData/Roaming}"),
    "CLAUDE_CONFIG_DIR": ("${CLAUDE_CONFIG_DIR:-~}",) * 3,
    "CODEX_HOME": ("${CODEX_HOME:-~/.codex}",) * 3,
}
"""Settings folders of clients: on Linux and other Unix systems, on macOS, on Windows."""
_SYSTEMS = {"darwin": 1, "win32": 2}

ClientOption = Annotated[
    ClientName, Parameter(help="claude-desktop, claude-code, cursor, vscode, codex or gemini-cli.")
]
Name = Annotated[str, Parameter(help="Name of the server in the client.")]
File = Annotated[
    Path | None, Parameter(help="Configuration file of the client, such as that of a project; by default the user's.")
]


def find_file(client: Client, system: str, env: Mapping[str, str], home: Path) -> Path:
    """The client's config file for a user of that system."""
    folder = _FOLDERS[client.folder][_SYSTEMS.get(system, 0)]
    folder = VARIABLE.sub(lambda match: env.get(match[1]) or match[2], folder)
    return Path(f"{home}{folder[1:]}" if folder.startswith("~") else folder) / client.file


def install(
    client: ClientOption,
    config: Annotated[
        Path | None, Parameter(help="Config, catalog or Python file; default as for other commands.")
    ] = None,
    /,
    *,
    name: Name = "toolyard",
    env: Annotated[
        Sequence[str],
        Parameter(help="Environment variable for the server: NAME=VALUE, or NAME to copy the current value."),
    ] = (),
    file: File = None,
    show: Annotated[bool, Parameter(name="--print", help="Print the entry without changing the file.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Let a client start `toolyard mcp CONFIG`. The rest of its file is preserved, and a backup is kept beside it."""
    found, place = CLIENTS[client], _choose_file(client, file)
    entry = _make_entry(found, config_path(config), _read_variables(env))
    path, what = (found.key, name), str(place)
    if show:
        made = write_value(found.form, "", path, entry, what=what)
        print_json({"client": client, "file": what, "entry": entry}) if options.json else print_text(f"{what}:\n{made}")
        return 0
    text = read_text(place) if place.exists() else ""
    there = find_value(found.form.read(text, what), path)
    _check_own_entry(there, name, what)
    changed = write_value(found.form, text, path, entry, what=what)
    place.parent.mkdir(parents=True, exist_ok=True)
    backup = _back_up(place, text) if text and there is None else None
    _replace_text(place, text, changed)
    return _report_change(client, what, name, "added to" if there is None else "changed in", options.json, backup)


def uninstall(
    client: ClientOption,
    /,
    *,
    name: Name = "toolyard",
    file: File = None,
    options: VerbOptions = OUTPUT,
) -> int:
    """Remove the tools from a client. A file that nobody else has changed is then what it was, to the byte."""
    found, place = CLIENTS[client], _choose_file(client, file)
    path, what = (found.key, name), str(place)
    text = read_text(place) if place.exists() else ""
    entry = find_value(found.form.read(text, what), path)
    if entry is None:
        raise NotFoundError(f"{what} has no server {name!r}; --name and --file say which entry is meant")
    _check_own_entry(entry, name, what)
    for backup, before in [*_read_backups(place), (None, "")]:
        known = find_value(found.form.read(before, str(backup)), path) is not None
        if not known and write_value(found.form, before, path, entry, what=str(backup)) == text:
            _replace_text(place, text, before)
            if backup:
                backup.unlink()
            break
    else:
        _replace_text(place, text, erase_value(found.form, text, path, what=what))
    return _report_change(client, what, name, "taken out of", options.json)


def _choose_file(client: ClientName, given: Path | None) -> Path:
    # Resolve symbolic links, as used for dotfiles, so that they are not replaced by a file.
    return (given or find_file(CLIENTS[client], sys.platform, os.environ, Path.home())).resolve()


def _read_backups(place: Path) -> list[tuple[Path, str]]:
    """The backups of the file, with their texts, oldest first."""
    names = (place.with_name(f"{place.name}.before-toolyard{number or ''}") for number in count())
    return [(name, read_text(name)) for name in takewhile(Path.exists, names)]


def _back_up(place: Path, text: str) -> Path:
    """Back up the file's text beside it, without overwriting other backups."""
    there = _read_backups(place)
    for name, kept in there:
        if kept == text:
            return name
    backup = place.with_name(f"{place.name}.before-toolyard{len(there) or ''}")
    replace_file(backup, text.encode())
    return backup


def _read_variables(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, given, value = word.partition("=")
        if not given and name not in os.environ:
            raise ConfigError(f"--env {name}: the variable is not set here; write --env {name}=VALUE")
        found[name] = value if given else os.environ[name]
    return found


def _make_entry(client: Client, config: Path | None, env: dict[str, str]) -> dict[str, Any]:
    """The entry for the client; the config is checked first, so that no entry is written that cannot run."""
    from toolyard.serving.process.workers import own_command

    if config is None:
        raise ConfigError("name a config, catalog or Python file; `toolyard init` makes one to begin with")
    if not file_of(config).is_file():
        raise ConfigError(f"{config}: no such file here; `toolyard init` makes a config to begin with")
    read = read_anything(config, env={**os.environ, **env})
    check_config(read)
    for program in sorted({str(entry.options["command"]) for entry in read.loaders if "command" in entry.options}):
        there = shutil.which(program, path=os.pathsep.join([os.defpath, str(Path(sys.executable).parent)]))
        if there is None and "PATH" not in env and shutil.which(program) is not None:
            warn(f"{config} starts {program}, on your PATH but perhaps not on a client's; --env PATH writes it down")
    for name in sorted(_list_variables(config) - env.keys()):
        warn(f"{config} needs the variable {name}, which clients do not pass on; --env {name} writes it into the entry")
    command, *arguments = own_command(["mcp", str(config.absolute())])
    entry = {"command": command, "args": arguments, **({"env": env} if env else {})}
    return {"type": "stdio", **entry} if client.typed else entry


def _list_variables(config: Path) -> set[str]:
    """Variables without a default in a config."""
    document = None if file_of(config).suffix == ".py" else read_config_file(config)
    text = json.dumps(document, ensure_ascii=False) if is_config(document) else ""
    return {match[1] for match in VARIABLE.finditer(text) if match[2] is None}


def _check_own_entry(entry: Any, name: str, what: str) -> None:
    arguments = entry.get("args") if isinstance(entry, dict) else None
    if entry is not None and not (isinstance(arguments, list) and {"toolyard", "mcp"} <= set(map(str, arguments))):
        raise ConfigError(f"{what}: the server {name!r} there is not one of `toolyard install`; say another --name")


def _replace_text(place: Path, before: str, after: str) -> None:
    if (read_text(place) if place.exists() else "") != before:
        raise ConfigError(f"{place}: another program changed it meanwhile; nothing was written, try again")
    if after:
        replace_file(place, after.encode(), keep_mode=True)
    else:
        place.unlink()


def _report_change(
    client: ClientName, what: str, name: str, done: str, as_json: bool, backup: Path | None = None
) -> int:
    if as_json:
        kept = {"backup": str(backup)} if backup else {}
        print_json({"client": client, "file": what, "name": name, "done": done.partition(" ")[0], **kept})
    else:
        print_text(f"{name!r} was {done} {what}; restart {CLIENTS[client].title} to see it")
        if backup:
            print_text(f"its previous content is in {backup}")
    return 0
