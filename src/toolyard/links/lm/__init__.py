"""A small client for language models, with rate limits, retries, a usage ledger and an answer journal."""

from toolyard.links.lm.client import LMClient
from toolyard.links.lm.config import LMConfig, LMOptions, read_lm_config
from toolyard.links.lm.shapes import LMAnswer, LMRequest, Message, Spent, Usage, UsageLedger, likely_tokens

__all__ = [
    "LMAnswer",
    "LMClient",
    "LMConfig",
    "LMOptions",
    "LMRequest",
    "Message",
    "Spent",
    "Usage",
    "UsageLedger",
    "likely_tokens",
    "read_lm_config",
]
