"""Language models: one small way to ask them, with limits, another try, a ledger and a journal."""

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
