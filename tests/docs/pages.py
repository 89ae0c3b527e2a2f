"""The pages of the docs, and their code blocks."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("configuration", "commands", "errors", "http-api", "python-api")
"""Pages that `make docs-reference` writes from the code."""
INSTALLS = re.compile(
    r"(sudo )?(pip|pipx|uvx|make|docker|kubectl|systemctl|cp|git|npm|npx|install|systemd-run) |"
    r"cd |echo \"POSTGRES_PASSWORD=|OPENAI_API_KEY=\.\.\. python |python3 -m venv |/opt/toolyard/bin/pip install "
)
"""Commands allowed in `sh` blocks, which are not run: they install, build and deploy."""

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its language, the file it is shown as, and its text."""

    language: str
    title: str
    text: str


class Page(NamedTuple):
    """A page with name and text."""

    name: str
    text: str

    def blocks(self, *languages: str) -> list[Block]:
        """The page's blocks in order: all, or those in these languages."""
        found = [Block(*match) for match in _BLOCK.findall(self.text)]
        return [block for block in found if not languages or block.language in languages]


def read_pages() -> list[Page]:
    """The README and every handwritten page, named by path below `docs`, since two are called README."""
    docs = ROOT / "docs"
    pages = [Page(path.relative_to(docs).with_suffix("").as_posix(), path.read_text()) for path in docs.rglob("*.md")]
    written = sorted(page for page in pages if page.name not in GENERATED)
    return [Page("README", (ROOT / "README.md").read_text()), *written]
