"""`toolyard check`: load everything a file names and say what came of it."""

from __future__ import annotations

from pathlib import Path

from toolyard.app import survey
from toolyard.cli.output import counted, print_json, print_table, print_text, working
from toolyard.cli.yard import JsonOption
from toolyard.model.report import LoadReport

_SHOWN = 50


def check(path: Path, /, *, json: JsonOption = False) -> int:
    """Load a config or catalog and print what was loaded, rewritten and rejected, and why.

    Exits 1 when anything was rejected or a source failed.

    Parameters
    ----------
    path
        A config (with a `tools:` block) or a catalog file.
    """
    with working(f"checking {path}"):
        registry, report = survey(path)
        registry.close()
    if json:
        print_json(report.to_dict())
    else:
        _show(report)
    return 0 if report.ok else 1


def _show(report: LoadReport) -> None:
    print_table(
        "Sources",
        ["source", "state", "entries", "loaded", "rewritten", "rejected"],
        [
            (s.source, s.state, str(s.entries), str(s.loaded), str(s.rewritten), str(len(s.rejected)))
            for s in report.sources
        ],
    )
    for source in report.sources:
        if source.error:
            print_text(f"{source.source}: {source.state}: {source.error}")
    changes: dict[str, int] = {}
    for rewrite in report.rewrites:
        changes[rewrite.change] = changes.get(rewrite.change, 0) + rewrite.count
    if changes:
        ranked = sorted(changes.items(), key=lambda item: -item[1])
        print_table("Rewritten", ["change", "places"], [(what, str(count)) for what, count in ranked[:_SHOWN]])
    if report.rejected:
        rows = [(item.where, item.tool or "", item.reason) for item in report.rejected[:_SHOWN]]
        print_table("Rejected", ["where", "tool", "why"], rows)
    for what, total in (("changes", len(changes)), ("rejections", len(report.rejected))):
        if total > _SHOWN:
            print_text(f"... and {total - _SHOWN} more {what}; --json lists all")
    print_text(f"{counted(report.loaded, 'tool')} loaded, {len(report.rejected):,} rejected")
