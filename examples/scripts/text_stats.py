"""One tool, in the shortest form a script can have."""

import re
from collections import Counter

TOOL_NAME = "text_stats"
TOOL_DESCRIPTION = "Count the characters, words and lines of a text, and name its most frequent words."
TOOL_PARAMETERS = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 100000},
        "top": {"type": "integer", "minimum": 0, "maximum": 50, "default": 3, "description": "How many words to name."},
    },
    "required": ["text"],
    "additionalProperties": False,
}
TOOL_ALIASES = ["count_words"]
TOOL_EFFECTS = "read"
TOOL_TIMEOUT = 5


def run(text, top=3):
    """What a caller gets."""
    words = re.findall(r"\w+", text.lower())
    frequent = [{"word": word, "count": count} for word, count in Counter(words).most_common(top)]
    return {"characters": len(text), "words": len(words), "lines": len(text.splitlines()), "frequent": frequent}
