"""Output schemas for tools that have none: by rules, from recorded results, or by a language model."""
