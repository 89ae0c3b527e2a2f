"""`toolyard sample`: random samples of related tools."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.options import YARD, SkipOption, YardOptions, read_word
from toolyard.cli.output import print_json, print_table, print_text, visible
from toolyard.cli.yard import open_registry
from toolyard.dialects import Dialect, get_dialect
from toolyard.insight.base import Sample
from toolyard.model.errors import ConfigError, SamplingError
from toolyard.plugins import get_tool_sampler

_OWN = {"k": "say -k", "seed": "say --seed", "registry": "the tools are those of the config"}
"""Options that `-o` may not set, and what to use instead."""


def sample(
    type: str,  # noqa: A002 (it is called so in configs)
    /,
    *,
    k: Annotated[int | None, Parameter(name=["-k"], help="Number of tools.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed; equal seeds draw equal tools.")] = None,
    count: Annotated[int, Parameter(name=["--count", "-n"], help="Number of samples.")] = 1,
    namespace: Annotated[tuple[str, ...], Parameter(name=["--namespace"], negative="")] = (),
    option: Annotated[tuple[str, ...], Parameter(name=["--option", "-o"], negative="", consume_multiple=False)] = (),
    jsonl: Annotated[bool, Parameter(negative="", help="Print one line of JSON per sample.")] = False,
    format: str | None = None,  # noqa: A002 - the option is called --format
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Draw tools with a sampler and print them, with the edges between them.

    Exits 1 when there are not enough suitable tools; those that were found are printed.

    Parameters
    ----------
    type
        Sampler: tc/random, tc/chain, tc/fan_out, tc/fan_in, tc/dag, tc/neighbor, tc/sparse, tc/conflict,
        tc/irrelevant, tc/missing, tc/coverage, tc/mix, or one of a plugin.
    namespace
        Only tools of this namespace. May be repeated.
    option
        Option of the sampler, such as `min_score=0.7`; the value is read as JSON if it is JSON. May be repeated; the
        same option only if it takes a list.
    format
        Add the definitions to the JSON, in a provider's format: openai, openai-responses, anthropic, gemini or mcp.
    """
    if count < 1:
        raise ConfigError(f"--count must be 1 or more, not {count}")
    if format is not None and not (options.json or jsonl):
        raise ConfigError("--format is for --jsonl and --json")
    given = _read_options(option, namespace)
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        sampler = get_tool_sampler(type, registry=registry, k=k, seed=seed, **given)
        dialect = None if format is None else get_dialect(format, registry.all_tools())
        try:
            samples = [sampler.sample()] if count == 1 else list(sampler.series(count))
        except SamplingError as error:
            if isinstance(error, ConfigError):
                raise
            return _report_failure(error, options.json)
    if options.json or jsonl:
        return _print_data(samples, dialect, jsonl)
    for drawn in samples:
        _show_sample(type, drawn)
    return 0


def _print_data(samples: list[Sample], dialect: Dialect | None, jsonl: bool) -> int:
    shown = [
        drawn.to_dict() | ({} if dialect is None else {"definitions": dialect.format_tools(drawn)}) for drawn in samples
    ]
    if jsonl:
        sys.stdout.writelines(f"{msgspec.json.encode(one).decode()}\n" for one in shown)
    else:
        print_json(shown[0] if len(shown) == 1 else shown)
    return 0


def _read_options(given: tuple[str, ...], namespaces: tuple[str, ...]) -> dict[str, Any]:
    """The options by name, repeated ones as a list."""
    values: dict[str, list[Any]] = {"namespace": list(namespaces)} if namespaces else {}
    for one in given:
        name, sign, text = one.partition("=")
        if not sign or not name:
            raise ConfigError(f"an option is given as NAME=VALUE, not {one!r}")
        if name in _OWN:
            raise ConfigError(f"-o {name}=...: {_OWN[name]}")
        values.setdefault(name, []).append(read_word(text))
    # The sampler refuses a list if it takes none.
    return {name: found[0] if len(found) == 1 else _flatten(found) for name, found in values.items()}


def _flatten(found: list[Any]) -> list[Any]:
    return [value for one in found for value in (one if isinstance(one, list) else [one])]


def _report_failure(error: SamplingError, as_json: bool) -> int:
    found = [tool.qualified_name for tool in error.tools]
    if as_json:
        told = {"type": "SamplingError", "message": str(error), "requested": error.requested, "tools": found}
        print_json({"error": told})
        return 1
    sys.stderr.write(f"toolyard: {visible(str(error))}\n")
    if found:
        sys.stderr.write(f"  found: {visible(', '.join(found))}\n")
    return 1


def _show_sample(kind: str, drawn: Sample) -> None:
    rows = [
        (tool.qualified_name, role, tool.description.partition("\n")[0])
        for tool, role in zip(drawn, drawn.roles, strict=True)
    ]
    print_table("Sample", ["name", "role", "description"], rows)
    for edge in drawn.edges:
        fed = ", ".join(f"{feed.output} -> {feed.parameter}" for feed in edge.feeds[:3])
        print_text(f"{edge.source} feeds {edge.target} ({edge.score:.2f}){': ' + fed if fed else ''}")
    for key, value in drawn.details.items():
        print_text(f"{key}: {msgspec.json.encode(value).decode()}")
    score = "" if drawn.score is None else f", score {drawn.score:.3f}"
    print_text(f"{len(drawn)} tools, {drawn.topology}, seed {drawn.seed}{score}; drawn by {kind}")
