"""Script directories for tests: real files, real manifests."""

import json
import textwrap
from pathlib import Path

PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
ONE = """
TOOL_NAME = "{name}"
TOOL_DESCRIPTION = "Says {answer}."
TOOL_PARAMETERS = {parameters}

async def run(n: int = 1) -> str:
    return "{answer}" * n
"""


def script(name, answer="hello"):
    """A file with one tool."""
    return ONE.format(name=name, answer=answer, parameters=PARAMETERS)


class Folder:
    """A directory of scripts."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.mkdir(mode=0o755, exist_ok=True)
        self.manifest = self.path / "_manifest.json"

    def allow(self, *names, **pins):
        """Write the manifest: names alone, or names and hashes."""
        self.manifest.write_text(json.dumps({"allow": pins or list(names)}))
        return self

    def put(self, file, text):
        """Write a file."""
        (self.path / file).write_text(textwrap.dedent(text))
        return self.path / file

    def allowed(self):
        """Contents of the manifest."""
        return json.loads(self.manifest.read_text())["allow"]
