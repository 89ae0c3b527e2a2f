"""Which tool's answer can feed which other tool, and by what binding."""
