"""What is learned about tools: enrichments, samplers and search."""
