"""`toolyard search`: tools by what they do."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from toolyard.cli.options import YARD, SkipOption, YardOptions
from toolyard.cli.output import counted, print_json, print_table, print_text, warn
from toolyard.cli.yard import open_registry, require_known, tell_of_default
from toolyard.insight.search.rank import MOST_HITS
from toolyard.insight.search.searcher import Hit
from toolyard.model.errors import ConfigError


def search(
    query: str,
    /,
    *,
    k: Annotated[int, Parameter(name=["-k"])] = 5,
    namespace: Annotated[tuple[str, ...], Parameter(name=["--namespace", "-n"], negative="")] = (),
    tag: Annotated[tuple[str, ...], Parameter(name=["--tag", "-t"], negative="")] = (),
    threshold: float | None = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Find the tools for a task, best first; none if it is about nothing that is there, and then it exits 1.

    Parameters
    ----------
    query
        The task in words, or a tool's name.
    k
        At most how many.
    namespace
        Only tools of this namespace; may be given often.
    tag
        Only tools with this tag; with all of them, if it is given often.
    threshold
        The score, from 0 to 1, that the best must reach; 0 shows the nearest, whatever it is.
    """
    if not 1 <= k <= MOST_HITS:
        raise ConfigError(f"-k must be from 1 to {MOST_HITS}, not {k}")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"--threshold must be from 0 to 1, not {threshold}")
    if not query.strip():
        raise ConfigError("the query is empty; say the task in words, or list all with `toolyard tools`")
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        require_known(registry, namespace=namespace, tag=tag)
        found = registry.search(query, k, namespace=namespace or None, tags=tag or None, threshold=threshold)
    if found.note:
        warn(found.note)
    if options.json:
        print_json({"hits": [_describe_hit(hit) for hit in found], "mode": found.mode, "note": found.note})
        return 0 if len(found) else 1
    rows = [
        (hit.fit, f"{hit.score:.2f}", hit.tool.qualified_name, hit.tool.description.partition("\n")[0]) for hit in found
    ]
    if rows:
        print_table("Found", ["fit", "score", "name", "description"], rows)
    print_text(f"{counted(len(found), 'tool')}, {found.mode} search")
    if not rows:
        warn("nothing fits; say it in other words, see the nearest with `--threshold 0`, or all with `toolyard tools`")
        tell_of_default(options.config)
    return 0 if rows else 1


def _describe_hit(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.tool.qualified_name,
        "fit": hit.fit,
        "score": hit.score,
        "reasons": dict(hit.reasons),
        "tool": hit.tool.to_dict(),
    }
