"""Finding tools by what they do: words and vectors together, and nothing where nothing fits."""
