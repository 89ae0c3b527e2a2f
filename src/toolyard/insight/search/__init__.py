"""Search for tools by what they do: words and vectors combined, with no hits for unrelated requests."""
