"""From a Python function to JSON Schema: signature, types, docstring, and values back from arguments."""
