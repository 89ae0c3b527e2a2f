import subprocess
import sys

import pytest

from dialects.strategies import tool
from toolyard import dialects
from toolyard.dialects import DIALECTS, WireNames, get_dialect
from toolyard.model.errors import ConfigError


def test_every_name_gives_the_dialect_that_bears_it():
    assert [get_dialect(name).name for name in DIALECTS] == ["openai", "openai-responses", "anthropic", "gemini", "mcp"]


def test_an_unknown_name_is_refused_with_the_valid_ones():
    with pytest.raises(ConfigError, match="openai, openai-responses, anthropic, gemini, mcp; did you mean 'gemini'"):
        get_dialect("gemni")


def test_tools_and_names_are_handed_on():
    names = WireNames([tool()])
    assert get_dialect("mcp", names=names).names is names
    assert get_dialect("mcp", [tool()]).format_tools()[0]["name"] == "hr__find"


@pytest.mark.process
def test_asking_for_one_dialect_does_not_import_the_others():
    code = "import sys; from toolyard.dialects import get_dialect; get_dialect('mcp'); "
    code += "print(*(name for name in sys.modules if name.startswith('toolyard.dialects.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "toolyard.dialects.mcp" in done.stdout
    assert not any(other in done.stdout for other in ("gemini", "anthropic", "openai"))


def test_everything_exported_exists_and_nothing_else_does():
    assert all(getattr(dialects, name) is not None for name in dialects.__all__)
    assert set(dialects._MODULES) == set(dialects.__all__)
    with pytest.raises(AttributeError, match="GeminyDialect"):
        dialects.GeminyDialect
