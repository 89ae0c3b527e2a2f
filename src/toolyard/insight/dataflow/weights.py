"""How much each signal counts. Fitted on the half of the labelled pairs that is marked `tune`."""

from __future__ import annotations

from typing import NamedTuple


class Weights(NamedTuple):
    """Of a logistic model: what is added up is the logit of the probability that a feed makes sense."""

    base: float
    name: float
    text: float
    type: float
    """Times three times what the type lacks."""
    state: float
    """Added where one of the values is told of something, such as a status."""
    required: float
    """Added where the parameter is required."""
    tools: float
    """Times the likeness of the two tools."""
    apart: float
    """Added between namespaces."""
    scoped: float
    """Added to that for values such as ids, which mean something only where they come from."""


MODEL = Weights(-6.13, 6.11, 4.46, 2.71, -1.42, 1.17, 0.75, -1.2, -1.2)
TOKENS = Weights(-6.18, 5.95, 4.62, 2.44, -0.83, 1.1, 1.04, -1.2, -1.2)
MIN_SCORE = 0.88
"""The highest at which no edge of the half is wrong and nine of ten are still found.

`make eval-dataflow` tells of both.
"""
