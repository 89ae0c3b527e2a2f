"""What all verbs have in common: options, exit codes, near names, completion, what goes to standard error."""

import json
import logging
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from toolyard.cli.main import _VERBS, app, run, show_default
from toolyard.sources.scripts.manifest import MANIFEST


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TOOLYARD_CONFIG", "TOOL_REGISTRY_DOMAINS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "toolyard.yaml").write_text(
        "tools: [{type: inline, tools: [{name: add}]}]\nsessions: {store: sqlite, path: s.db}\n"
    )
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / MANIFEST).write_text('{"allow": ["kept.py"]}')
    yield tmp_path
    logging.getLogger("toolyard").setLevel(logging.NOTSET)


@pytest.mark.parametrize("target", [*_VERBS, "main:completion"])
def test_every_verb_takes_json_quiet_and_verbose(target):
    file, _, function = target.partition(":")
    command = (app[file] if function.endswith("_") else app)[function.removesuffix("_")]
    names = {name for argument in command.assemble_argument_collection() for name in argument.names}
    assert names >= {"--json", "--quiet", "-q", "--verbose", "-v"}


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["show", "ad"], "default::add"),
        (["call", "ad"], "default::add"),
        (["session", "show", "chat1"], "chat-1"),
        (["session", "delete", "chat1"], "chat-1"),
        (["manifest", "remove", "scripts", "kep.py"], "kept.py"),
        (["key", "revoke", "k_nope"], "toolyard key list"),
        (["show", "zzzz"], "toolyard tools"),
        (["call", "zzzz"], "toolyard tools"),
    ],
    ids=" ".join,
)
def test_a_name_that_is_not_there_exits_1_whatever_it_names_and_says_what_there_is(capsys, arguments, near):
    assert run(["call", "add", "--session", "chat-1"]) == 0
    capsys.readouterr()
    assert run(arguments) == 1
    assert near in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--namespace", "--tag"])
@pytest.mark.parametrize("verb", [["tools"], ["search", "add"]])
def test_a_filter_that_fits_nothing_says_once_what_may_have_been_meant(capsys, verb, option):
    assert run([*verb, option, "defalt"]) == 1
    said = capsys.readouterr().err
    assert said.count("defalt") == 1 and ("did you mean default?" in said or option == "--tag")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", "read", "a", "note"], "'a', 'note': `toolyard search` takes QUERY alone; put words that belong"),
        (["sample", "tc/random", "f.yaml"], "the file comes first, `toolyard sample f.yaml ...`, or behind -c"),
        (["check", "-c", "f.yaml", "nope"], "'nope': `toolyard check` takes no such word"),
        (["tools", "f.yaml", "g.yaml"], "'g.yaml': `toolyard tools` takes no such word"),
        (["session", "fork", "a", "b", "c"], "'c': `toolyard session fork` takes SESSION_ID NEW_ID alone"),
        (["search", " "], "the query is empty"),
        (["call", "add", "x"], "'x': write the arguments as KEY=VALUE"),
        (["call", "add", "a=1", "--sesion", "x"], "there is no option --sesion; did you mean --session?"),
        (["call", "add", "--jsn=1"], "there is no option --jsn=1; did you mean --json?"),
        (["call", "add", "--a", "1"], "there is no option --a; write the arguments as KEY=VALUE"),
    ],
    ids=" ".join,
)
def test_a_word_too_many_is_answered_with_where_it_belongs(capsys, arguments, said):
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_verbose_tells_what_is_done_and_quiet_nothing_but_errors(capsys, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest

    def say() -> int:
        logging.getLogger("toolyard.some.part").debug("a detail")
        logging.getLogger("toolyard.some.part").warning("a remark")
        return 0

    said = {}
    for option in ("--verbose", "--quiet", "--json"):
        run(["version", option])
        capsys.readouterr()
        say()
        said[option] = capsys.readouterr().err
    assert said == {"--verbose": "a detail\na remark\n", "--quiet": "", "--json": "a remark\n"}


def test_help_and_usage_errors_draw_no_boxes_for_a_pipe(capsys):
    run(["--help"])
    run(["tools", "--help"])
    assert run(["tools", "--nope"]) == 2
    shown = capsys.readouterr()
    assert "--namespace" in shown.out and "Unknown option: --nope (see `toolyard" in shown.err
    assert (shown.out + shown.err).isascii()


def _verb_of(target):
    return target.partition(":")[2].removesuffix("_")


@pytest.mark.process
def test_completion_knows_every_verb(capsys):
    assert run(["completion", "bash", "--json"]) == 0
    script = json.loads(capsys.readouterr().out)["script"]
    assert all(_verb_of(target) in script for target in _VERBS)
    words = "COMP_WORDS=(toolyard session sh); COMP_CWORD=2; _toolyard; echo ${COMPREPLY[@]}; complete -p toolyard"
    done = subprocess.run(["bash"], input=f"{script}\n{words}", text=True, check=True, capture_output=True)
    assert done.stdout.splitlines() == ["show", "complete -o default -F _toolyard toolyard"]


def test_completion_is_installed_where_the_shell_looks_and_knows_every_verb(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["completion", "fish", "--install"]) == 0
    place = capsys.readouterr().out.strip()
    script = (tmp_path / place).read_text()
    assert place.startswith(str(tmp_path)) and all(_verb_of(target) in script for target in _VERBS)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["check"], ["tools"], ["show", "f"], ["call", "f"], ["search", "f"]),
        *(["sample", "tc/random", "-k", "1"], ["graph", "--out", "g.json"]),
    ],
    ids=" ".join,
)
def test_what_a_file_prints_when_it_is_run_stays_out_of_the_answer(capsys, folder, monkeypatch, arguments):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    (folder / "noisy.py").write_text("print('noise')\ndef f() -> int:\n    print('noise')\n    return 1\n")
    assert run([*arguments, "-c", "noisy.py", "--json"]) == 0
    shown = capsys.readouterr()
    json.loads(shown.out)
    assert "noise" in shown.err


def test_an_interrupt_ends_a_command_with_a_word_and_130(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text('def stop() -> int:\n    "Stop."\n    raise KeyboardInterrupt\n')
    assert run(["call", "desk.py::stop"]) == 130
    assert capsys.readouterr().err == "toolyard: interrupted\n"


@pytest.mark.parametrize("arguments", [["graph", "-o", "gone/x.html"], ["add", "json", "--into", "desk.py/x.yaml"]])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text("")
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert arguments[-1].split("/")[0] in said and "Errno" not in said


@pytest.mark.process
def test_a_command_on_a_catalog_starts_without_heavy_packages(folder):
    code = (
        "import sys\n"
        "from toolyard.cli.main import run\n"
        "run(['tools'])\n"
        "heavy = {'asyncio', 'httpx2', 'importlib.metadata', 'numpy', 'pydantic', 'rich', 'starlette'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_was_closed_ends_no_command(tmp_path, monkeypatch, stream):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text('def one() -> int:\n    "One."\n    return 1\n')
    monkeypatch.setattr(sys, stream, None)
    codes = [run(["call", "desk.py::one"]), run(["call", "desk.py::two"])]
    getattr(sys, stream).close()
    assert codes == [0, 1]


@pytest.mark.parametrize("verb", [[], ["call"], ["serve"], ["install"], ["add"], ["session", "fork"], ["search"]])
def test_help_keeps_to_the_width_and_folds_no_line_twice(verb):
    console = Console(file=StringIO(), width=80, color_system=None)
    app.help_print(verb, console=console)
    lines = console.file.getvalue().splitlines()
    assert lines[0].startswith("Usage: toolyard") and max(map(len, lines)) <= 80
    panels = [line.strip() for line in lines if line.strip() in ("Commands", "Arguments", "Parameters")]
    entries = lines[[line.strip() for line in lines].index(panels[0]) :]
    # Beside the names, or below them in the same column: nothing begins at the left edge.
    assert all(line.startswith("  ") for line in entries if line)


def test_defaults_are_said_where_they_say_something(capsys):
    run(["search", "--help"])
    shown = capsys.readouterr().out
    assert "[default: 5]" in shown and "False" not in shown and "()" not in shown
    assert [show_default(value) for value in (False, (), None, "", 0, 0.5)] == [*[None] * 4, "0", "0.5"]
    run(["install", "--help"])
    assert "[required]" in capsys.readouterr().out
