"""What a config may say of each enrichment, and its limits. Defaults are the constructors'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.links.lm.config import LMOptions


class EnrichmentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What every enrichment has."""

    force: Annotated[bool, Meta(description="Work out again what is there already.")]
    cache: Annotated[
        str | Path | bool | None,
        Meta(
            description="Folder that keeps what was worked out; false for none, null for the usual one.",
        ),
    ]


class VectorOptions(EnrichmentOptions, frozen=True, kw_only=True):
    """Of enrichments that compare tools by meaning."""

    model: Annotated[
        Any,
        Meta(
            description="What makes vectors: a name, or a mapping that says where it is; the built-in one if none.",
        ),
    ]


class DataflowOptions(VectorOptions, frozen=True, kw_only=True):
    """Of the enrichment that finds which outputs feed which inputs."""

    max_neighbors: Annotated[int, Meta(ge=1, description="Feeds that are kept for each input.")]
    min_score: Annotated[float, Meta(ge=0, le=1, description="Least score of a feed that is kept.")]


class NeighborsOptions(VectorOptions, frozen=True, kw_only=True):
    """Of the enrichment that finds similar tools."""

    max_candidates: Annotated[int, Meta(ge=1, description="Tools that are compared closely with each.")]
    max_neighbors: Annotated[int, Meta(ge=1, description="Neighbours that are kept for each tool.")]
    duplicate_sim_thresh: Annotated[
        float, Meta(ge=0, le=1, description="Similarity from which two tools count as the same.")
    ]


class OutputOptions(EnrichmentOptions, frozen=True, kw_only=True):
    """Of the enrichment that says what tools return."""

    lm_config: Annotated[
        LMOptions | None, Meta(description="The model that is asked; without one, rules and examples decide.")
    ]
    infer: Annotated[Literal["rules", "examples"] | None, Meta(description="What to go by: rules, or examples alone.")]
    results: Annotated[
        str | Path | list[dict[str, Any]] | None, Meta(description="File or list of results that tools gave.")
    ]
