"""Small named values beside the sessions: keys, registered tools, answers to repeated requests."""

from toolyard.sessions.records.base import Records
from toolyard.sessions.records.memory import MemoryRecords
from toolyard.sessions.store.record_tables import Record

__all__ = ["MemoryRecords", "Record", "Records"]
