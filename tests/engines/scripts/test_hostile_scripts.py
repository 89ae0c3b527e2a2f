"""Scripts that mean harm, through source and engine, at every level this machine has."""

import os
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from script_folder import Folder
from waiting import SOON, until

from conftest import SOAK
from engines.scripts.support import AVAILABLE, IS_ROOT, call, code, put, yard
from toolyard import ScriptToolEngine, ScriptToolLoader, ToolRegistry

pytestmark = pytest.mark.process

FINE = "def run():\n    return 'fine'\n"
FAILED, LATE = ("tool.execution_error", "unknown"), ("tool.timeout", "unknown")
ATTEMPT = """
import os
def run(**given):
    try:
{body}
    except BaseException as error:
        return type(error).__name__
"""


def attempt(body):
    """A script that tries something and says what came of it."""
    return ATTEMPT.format(body="\n".join(f"        {line}" for line in body.strip().splitlines()))


@pytest.fixture
def tried(tmp_path, level):
    """Runs hostile scripts of this level, each beside a fine one, which must go on."""
    engines = {}

    def run(body, arguments=None, *, timeout=SOON, **options):
        if body not in engines:
            bodies = {"evil": body, "fine": FINE}
            made = yard(tmp_path / "t", bodies, options={"sandbox": level, **options})
            engines[body] = stack.enter_context(made)[2]
        engine = engines[body]
        assert call(engine, "fine").result == "fine"
        result = call(engine, "evil", arguments, timeout=timeout)
        assert call(engine, "fine").result == "fine"
        return result

    with ExitStack() as stack:
        yield run


@pytest.fixture
def home(meeting):
    """A home directory with a secret of its owner, and a file for everybody."""
    (meeting / "secret").write_text("s3cr3t")
    (meeting / "secret").chmod(0o600)
    (meeting / "open").write_text("for everybody")
    (meeting / "open").chmod(0o644)
    return meeting


def test_a_file_that_hangs_dies_or_breaks_when_it_is_loaded_spoils_no_other(tmp_path, ending_level):
    folder = Folder(tmp_path / "t")
    bad = {
        "loops": "while True: pass",
        "sleeps": "import time; time.sleep(600)",
        "exits": "import os; os._exit(0)",
        "leaves": "import sys; sys.exit(0)",
        "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "hoards": "x = bytearray(10 << 30)",
        "patches": "import builtins\nbuiltins.len = builtins.isinstance = None\nraise SystemExit",
    }
    for name, text in bad.items():
        put(folder, name, text + "\n" + FINE)
        put(folder, f"after_{name}", FINE)
    loader = ScriptToolLoader(folder.path, sandbox=ending_level, load_timeout=2.0)
    with ToolRegistry.from_loaders([loader]) as registry:
        assert sorted(registry.tool_names()) == sorted(f"after_{name}" for name in bad)
        assert {Path(item.where).stem for item in registry.report.rejected} == set(bad)
        with ScriptToolEngine(registry) as engine:
            engine.setup("s")
            assert all(call(engine, f"after_{name}").result == "fine" for name in bad)


ENDS_BADLY = {
    "loop": ("while True: pass", LATE),
    "sleep": ("import time; time.sleep(600)", LATE),
    "deaf_loop": (
        "import signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass",
        LATE,
    ),
    "_exit": ("import os; os._exit(0)", FAILED),
    "exit": ("import sys; sys.exit(0)", FAILED),
    "ten_gigabytes": ("return bytearray(10 << 30)", FAILED),
    "ten_gigabytes_bit_by_bit": ("x = []\n    while True: x.append('x' * 10_000_000)", FAILED),
    "a_gigabyte_of_output": ("import os; [os.write(1, b'x' * (1 << 20)) for _ in range(1 << 10)]", FAILED),
    "recursion": ("import sys; sys.setrecursionlimit(10 ** 9)\n    def f(n): return f(n + 1)\n    f(0)", FAILED),
}


def test_what_ends_badly_is_an_error_of_its_call_alone(tmp_path, ending_level):
    bodies = {name: f"def run():\n    {body}\n" for name, (body, _) in ENDS_BADLY.items()}
    # Little memory is used up sooner.
    options = {"sandbox": ending_level, "memory_bytes": 128 << 20}
    found = {}
    with yard(tmp_path / "t", {**bodies, "fine": FINE}, options=options) as (_, _, engine):
        for name, (_, expected) in ENDS_BADLY.items():
            found[name] = code(call(engine, name, timeout=1.0 if expected is LATE else SOON))
            assert call(engine, "fine").result == "fine", name
    assert found == {name: expected for name, (_, expected) in ENDS_BADLY.items()}


# What ends its processes is tested in `links/scripts`.
@pytest.mark.parametrize("level", AVAILABLE if SOAK else AVAILABLE[:1])
def test_a_fork_bomb_is_ended_with_all_of_its_processes(tried):
    name = uuid.uuid4().hex[:15]
    body = f"""
import ctypes, os
def run():
    ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)
    while True:
        try: os.fork()
        except OSError: pass
"""
    assert code(tried(body, timeout=1.5)) in (LATE, FAILED)
    assert until(lambda: not _called(name))


def _called(name):
    """The processes that call themselves so."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                found.append(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_secrets_of_the_environment_are_not_to_be_seen(tried, level, monkeypatch):
    monkeypatch.setenv("TEST_YARD_SECRET", "s3cr3t-of-the-server")
    body = attempt("""
found = str(dict(os.environ))
for number in (os.getpid(), os.getppid(), 1, given["server"]):
    try:
        found += open(f"/proc/{number}/environ").read()
    except OSError:
        pass
return "s3cr3t-of-the-server" in found
""")
    expected = level == "rlimits" and not IS_ROOT
    assert tried(body, {"server": os.getpid()}).result is expected


def test_a_variable_that_is_named_is_seen(tried, monkeypatch):
    monkeypatch.setenv("TEST_YARD_SETTING", "on")
    assert tried(attempt("return os.environ['TEST_YARD_SETTING']"), env=["TEST_YARD_SETTING"]).result == "on"


def test_files_of_a_home_directory(tried, level, home):
    read = attempt("return open(given['path']).read()")
    secret, everybody = (tried(read, {"path": str(home / name)}).result for name in ("secret", "open"))
    kept = {"bwrap": "FileNotFoundError", "landlock": "PermissionError"}
    assert everybody == kept.get(level, "for everybody")
    assert secret == kept.get(level, "PermissionError" if IS_ROOT else "s3cr3t")


def test_writing_outside_of_its_directory(tried, level, home):
    write = attempt("open(given['path'], 'w').write('x')\nreturn 'written'")
    seen = tried(write, {"path": str(home / "new")}).result
    assert seen == {"bwrap": "FileNotFoundError", "landlock": "PermissionError"}.get(level, "written")
    assert (home / "new").exists() is (level == "rlimits")
    for path in (os.__file__ + ".new", "/usr/new", "/new"):
        assert tried(write, {"path": path}).result in ("OSError", "PermissionError", "FileNotFoundError")
    assert tried(write, {"path": "own"}).result == "written"


def test_memory_and_semaphores_of_posix_are_files_that_only_some_levels_deny(tried, level):
    """What the table of `sandbox` says: below Landlock nothing looks at paths."""
    name = f"test-yard-{uuid.uuid4().hex}"
    bodies = {
        name: "import _posixshmem\nos.close(_posixshmem.shm_open(given['name'], os.O_CREAT | os.O_RDWR, mode=0o600))",
        f"sem.{name}": "import _multiprocessing\n_multiprocessing.SemLock(1, 1, 1, given['name'], False)",
        f"{name}-file": "open('/dev/shm' + given['name'] + '-file', 'w').close()",
    }
    for file, body in bodies.items():
        left = Path("/dev/shm", file)
        try:
            seen = tried(attempt(f"{body}\nreturn 'made'"), {"name": f"/{name}"}).result
            assert left.exists() is (level == "rlimits")
            assert seen == {"landlock": "PermissionError"}.get(level, "made")
        finally:
            left.unlink(missing_ok=True)


def test_that_a_file_is_there_is_told_where_its_world_is_the_servers(tried, level, home):
    seen = tried(attempt("return os.stat(given['path']).st_size"), {"path": str(home / "open")}).result
    assert seen == ("FileNotFoundError" if level == "bwrap" else (home / "open").stat().st_size)


def test_its_own_file_cannot_be_read_or_changed_at_the_higher_levels(tried, level, tmp_path):
    path = str(tmp_path / "t" / "evil.py")
    opening = attempt("open(given['path'], given['mode'])\nreturn 'opened'")
    for mode in ("r", "a"):
        seen = tried(opening, {"path": path, "mode": mode}).result
        if level != "rlimits" or (IS_ROOT and mode == "a"):
            assert seen in ("FileNotFoundError", "PermissionError")


def test_no_socket_can_be_opened_at_any_level(tried):
    opening = attempt("import socket\nsocket.socket(getattr(socket, given['family']))\nreturn 'opened'")
    for family in ("AF_INET", "AF_INET6", "AF_UNIX"):
        assert tried(opening, {"family": family}).result == "PermissionError", family


def test_what_a_script_patches_and_replaces_nobody_else_sees(tried):
    body = """
import builtins, json, sys
builtins.len = lambda x: 666
json.dumps = json.loads = None
sys.modules.clear()
sys.modules["toolyard"] = sys.modules["json"] = None
def run():
    return len("")
"""
    before = dict(sys.modules)
    assert tried(body).result == 666
    assert len("four") == 4 and all(sys.modules[name] is module for name, module in before.items())


def test_a_process_that_a_script_leaves_behind_is_ended(tried, level, home):
    body = """
import os, time
def run(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                try: open(path, "a").write("x")
                except OSError: pass
                time.sleep(0.01)
        os._exit(0)
    return "left"
"""
    target = home / "alive"
    assert tried(body, {"path": str(target)}).result == "left"
    if level == "rlimits":
        size = target.stat().st_size if target.exists() else 0
        assert until(lambda: not _grows(target)), size


def _grows(path):
    import time

    before = path.stat().st_size if path.exists() else 0
    time.sleep(0.1)
    return (path.stat().st_size if path.exists() else 0) != before


def test_the_server_cannot_be_signalled(tried, level):
    seen = tried(attempt("os.kill(given['server'], 0)\nreturn 'sent'"), {"server": os.getpid()}).result
    if level != "rlimits" or IS_ROOT:
        assert seen in ("PermissionError", "ProcessLookupError")


def test_an_answer_that_is_forged_is_not_believed(tried):
    body = """
import os
def run():
    for fd in range(3, 20):
        try: os.write(fd, b'\\0\\0\\0\\x1f{"token":"x","value":"forged"}  ')
        except OSError: pass
    return "honest"
"""
    result = tried(body)
    assert result.result != "forged" and (result.error_info is None or code(result) == FAILED)
