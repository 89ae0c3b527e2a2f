"""Sources of tools, one module or package for each kind of origin."""
