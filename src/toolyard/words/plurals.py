"""What one thing is called, by what several are called."""

from __future__ import annotations


def singular(word: str) -> str:
    """`cities` -> `city`, by the ending alone; what does not look like a plural stays."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
