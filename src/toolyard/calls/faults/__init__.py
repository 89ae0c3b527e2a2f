"""Faults on purpose: a plan, as data, of when calls fail or are answered wrongly, that any engine accepts.

In a config: `faults: {seed: 7, rules: [{type: network_error, tool: "weather::*", probability: 0.05}]}`.
"""

from toolyard.calls.faults.plan import FaultPlan, from_error_categories
from toolyard.calls.faults.rules import FAULTS_SCHEMA, Fault, FaultRule, FaultType

__all__ = ["FAULTS_SCHEMA", "Fault", "FaultPlan", "FaultRule", "FaultType", "from_error_categories"]
