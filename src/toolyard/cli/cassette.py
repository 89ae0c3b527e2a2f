"""`toolyard cassette`: what was recorded, and whether it still matches the tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.options import OUTPUT, YARD, SkipOption, VerbOptions, YardOptions
from toolyard.cli.output import (
    counted,
    describe_missing,
    print_either,
    print_json,
    print_table,
    print_text,
    warn,
    working,
    write_command,
)
from toolyard.cli.yard import config_path, open_registry
from toolyard.engines.cassette import Cassette, Recording, drift_of
from toolyard.model.errors import ErrorInfo

CassettePath = Annotated[Path, Parameter(help="The cassette, a .jsonl or .yaml file.")]
NameOption = Annotated[str | None, Parameter(name="--tool", help="Only recordings of this tool.")]

_SHOWN = 80


def show_(path: CassettePath, /, *, tool: NameOption = None, options: VerbOptions = OUTPUT) -> int:
    """List the recordings of a cassette."""
    cassette = _read_cassette(path)
    if tool is not None and tool not in cassette.names():
        listing = write_command(None, "cassette", "show", str(path))
        warn(describe_missing("recorded tool", tool, cassette.names(), listing))
    numbers = [number for number, item in enumerate(cassette.recordings) if tool in (None, item.name)]
    if options.json:
        print_json([cassette.recordings[number].to_dict() for number in numbers])
        return 0
    rows = [_recording_row(number, cassette.recordings[number]) for number in numbers]
    print_table(f"{path.name}", ["number", "tool", "arguments", "answer", "when", "took"], rows)
    print_text(f"{counted(len(rows), 'recording')} of {counted(len(cassette.names()), 'tool')}")
    return 0


def check_(path: CassettePath, /, *, skip_bad: SkipOption = False, options: YardOptions = YARD) -> int:
    """Compare a cassette with the current tools. Exits 1 if they differ.

    Lists tools that no longer exist or whose definition changed, and recorded arguments that their tool no longer
    accepts. Recordings that are never played are reported by `ReplayToolEngine.drift()` and by the summary of the
    pytest plugin.
    """
    cassette = _read_cassette(path)
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        drift = drift_of(cassette, registry)
    file = config_path(options.config) or "the tools that ship with toolyard, as no file was named"
    said = f"{'all fit' if drift.ok else counted(len(drift.lines()), 'finding')}, held against {file}"
    total = f"{counted(len(cassette), 'recording')} of {counted(len(cassette.names()), 'tool')}; {said}"
    print_either(options.json, drift.to_dict(), "\n".join([*drift.lines(), total]))
    return 0 if drift.ok else 1


def _read_cassette(path: Path) -> Cassette:
    with working(f"reading {path}"):
        return Cassette.load(path)


def _recording_row(number: int, recording: Recording) -> tuple[str, ...]:
    error, took = recording.error, f"{recording.duration * 1000:.1f} ms"
    answer = f"{error.code}: {error.message}" if isinstance(error, ErrorInfo) else _write_text(recording.result)
    arguments = _cut_text(_write_text(recording.arguments))
    return str(number), recording.name, arguments, _cut_text(answer), recording.when, took


def _write_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _cut_text(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
