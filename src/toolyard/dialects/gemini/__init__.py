"""Gemini's generateContent: its declarations and contents, and its schemas both ways."""

from toolyard.dialects.gemini.dialect import GeminiDialect

__all__ = ["GeminiDialect"]
