"""Served over MCP by `toolyard mcp notes.py`."""

_notes: list[str] = []


def add_note(text: str) -> list[str]:
    """Keep a note, and say which there are."""
    _notes.append(text)
    return _notes
