"""Hostile scripts, at every level; the table in `sandbox` lists the same."""

import os
import resource
import tempfile
import threading
import uuid
from pathlib import Path

import pytest
from waiting import until

from toolyard.links.scripts import ScriptFailed, ScriptPool, ScriptTimeout, WorkerSettings
from toolyard.links.scripts.sandbox import identity

from .conftest import AVAILABLE, IS_ROOT, NAMING, named, script, soon

pytestmark = pytest.mark.process

FINE = script("def run():\n    return 'fine'\n", "fine.py")


def tried(pool, body, **arguments):
    """What a script comes to that tries something: its answer, or the name of its exception."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    text = f"import os\ndef run(**given):\n    globals().update(given)\n    try:\n{lines}\n    except BaseException as error:\n        return type(error).__name__\n"
    return pool.call(script(text), "run", arguments, deadline=soon()).value


def times_out(pool, code, name, seconds):
    with pytest.raises(ScriptTimeout):
        pool.call(code, "run", {"name": name}, deadline=soon(seconds))


def still_works(pool):
    assert pool.call(FINE, "run", {}, deadline=soon()).value == "fine"


@pytest.fixture(scope="module", params=AVAILABLE)
def level(request):
    """Every level that can be had here."""
    return request.param


@pytest.fixture(scope="module")
def kept_pools():
    """One of each level for all of these: none spoils it for the next."""
    found = {level: ScriptPool(WorkerSettings(sandbox=level), "hostile scripts") for level in AVAILABLE}
    yield found
    for pool in found.values():
        pool.close()


@pytest.fixture
def pool(kept_pools, level):
    return kept_pools[level]


@pytest.fixture
def ending_pool(kept_pools, ending_level):
    return kept_pools[ending_level]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(7)", "status 7"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.abort()", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("os.close(3); os.close(4)", "before it answered"),
        ("os.closerange(0, 60)", "before it answered"),
        ("os.write(4, b'garbage that is no frame')", "reserved for results"),
        ("os.write(4, b'\\x00\\x00\\x00\\x0b{\"value\":1}')", "reserved for results"),
        ("os.write(4, b'\\x00\\x00\\x00\\x02{{')", "reserved for results"),
        ("bytearray(10 << 30)", "MemoryError"),
        ("x = [0]\n    while True: x += x", "MemoryError"),
        ("raise type('E', (Exception,), {'__str__': lambda self: 1/0})", "cannot be shown"),
        ("def f(): f()\n    f()", "RecursionError"),
    ],
)
def test_whatever_a_script_does_to_itself_its_call_fails_and_the_next_finds_a_worker(ending_pool, body, words):
    code = script(f"import os\ndef run():\n    {body}\ndef ok():\n    return 1\n")
    with pytest.raises(ScriptFailed, match=words) as caught:
        ending_pool.call(code, "run", {}, deadline=soon())
    assert caught.value.info.effect == "unknown"
    assert ending_pool.call(code, "ok", {}, deadline=soon()).value == 1
    still_works(ending_pool)


async def test_a_script_without_end_is_ended_at_its_deadline_and_holds_nobody_up(pools, ending_level):
    pool = pools(ending_level, workers=2)
    still_works(pool)  # its processes are there: the time below is that of the call
    sleeping = "import time\ndef run(name):\n    call_yourself(name)\n    time.sleep(600)\ndef ok():\n    return 1\n"
    code = script(NAMING + sleeping)
    name = uuid.uuid4().hex[:15]
    hung = threading.Thread(target=times_out, args=(pool, code, name, 5))
    hung.start()
    until(lambda: named(name))
    for _ in range(10):
        still_works(pool)
    assert hung.is_alive()
    hung.join()
    until(lambda: not named(name))
    with pytest.raises(ScriptTimeout) as caught:
        await pool.acall(code, "run", {"name": name}, deadline=soon(2))
    assert (caught.value.info.code, caught.value.info.effect) == ("tool.timeout", "unknown")
    assert (await pool.acall(code, "ok", {}, deadline=soon())).value == 1
    until(lambda: not named(name))


def test_a_script_that_never_ends_while_it_is_loaded_is_ended_too(ending_pool):
    code = script("while True: pass")
    with pytest.raises(ScriptTimeout):
        ending_pool.call(code, "run", {}, deadline=soon(1))
    still_works(ending_pool)


def test_a_fork_bomb_is_bounded_and_ended_with_its_call(pools, ending_level):
    # A uid of its own: the kernel counts all processes of one, whoever started them.
    pool = pools(ending_level, processes=20, uid=50000 + os.getpid() % 10000 if IS_ROOT else None)
    still_works(pool)
    name = uuid.uuid4().hex[:15]
    code = script(f"""{NAMING}
import os
def run(name):
    call_yourself(name)
    while True:
        try:
            os.fork()
            if os.getpid() % 2:
                os.setsid()
        except OSError:
            pass
""")
    most = 0
    failing = threading.Thread(target=times_out, args=(pool, code, name, 1))
    failing.start()
    while failing.is_alive():
        most = max(most, len(named(name)))
        failing.join(0.02)  # looking without a pause takes a whole core from the bomb
    until(lambda: not named(name))
    assert 2 <= most <= 30
    still_works(pool)


def test_a_process_that_leaves_its_group_and_its_parent_is_ended_all_the_same(ending_pool):
    name = uuid.uuid4().hex[:15]
    code = script(f"""{NAMING}
import os, time
def run(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            call_yourself(name)
            os.setsid()
            os.closerange(0, 60)
            time.sleep(600)
        os._exit(0)
    os.wait()
    return os.getpid()
""")
    ending_pool.call(code, "run", {"name": name}, deadline=soon())
    assert until(lambda: not named(name))
    still_works(ending_pool)


def test_a_gigabyte_of_output_neither_fills_the_server_nor_blocks_it(ending_pool):
    code = script("""
        import os
        def run(size):
            block = b"x" * 65536
            for _ in range(size // 65536):
                os.write(1, block)
            print("the end")
            return "done"
    """)
    answer = ending_pool.call(code, "run", {"size": 30 << 20}, deadline=soon())
    assert (answer.value, answer.truncated) == ("done", True)
    assert answer.stdout.endswith("x\nthe end\n") or answer.stdout.endswith("xthe end\n")
    assert len(answer.stdout) <= 1 << 19
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ScriptFailed, match="printed more than its limit"):
        ending_pool.call(code, "run", {"size": 1 << 30}, deadline=soon())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10
    still_works(ending_pool)


def test_what_a_script_prints_after_its_answer_is_shown_to_no_other_call(pools, level):
    pool = pools(level, workers=1)
    code = script("""
        import os, signal
        def run():
            signal.signal(signal.SIGALRM, lambda *_: os.write(1, b"of the first caller"))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return os.getpid()
        def pid():
            return os.getpid()
    """)
    pid = pool.call(code, "run", {}, deadline=soon()).value
    until(lambda: not next(iter(pool._slots.idle)).is_ready())
    answer = pool.call(code, "pid", {}, deadline=soon())
    assert (answer.value != pid, answer.stdout) == (True, "")


def test_an_answer_written_before_the_call_is_not_used(pools, level):
    pool = pools(level, workers=1)
    code = script("""
        import os, json, signal
        def run():
            body = json.dumps({"token": "0" * 16, "value": "forged", "again": True}).encode()
            signal.signal(signal.SIGALRM, lambda *_: os.write(4, len(body).to_bytes(4, "big") + body))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return 1
        def ok():
            return "true"
    """)
    pool.call(code, "run", {}, deadline=soon())
    until(lambda: not next(iter(pool._slots.idle)).is_ready())
    assert pool.call(code, "ok", {}, deadline=soon()).value == "true"


def test_what_one_script_changes_no_other_script_finds(pools, level):
    pool = pools(level, workers=3)
    evil = script(
        """
        import builtins, json, os, sys
        builtins.len = lambda x: 666
        json.dumps = lambda *a, **k: "patched"
        json.JSONEncoder.encode = json.JSONDecoder.raw_decode = None
        sys.modules["re"] = sys.modules["fine"] = sys
        os.environ["LEFT"] = "behind"
        sys.path[:] = []
        def run():
            return len("")
    """,
        "evil.py",
    )
    good = script(
        """
        import json, re, os, sys
        def run():
            return [len("four"), json.dumps([1]), re.sub("a", "b", "a"), "LEFT" in os.environ, len(sys.path) > 1]
    """,
        "good.py",
    )
    expected = [4, "[1]", "b", False, True]
    assert pool.call(good, "run", {}, deadline=soon()).value == expected
    assert pool.call(evil, "run", {}, deadline=soon()).value == 666
    assert pool.call(good, "run", {}, deadline=soon()).value == expected
    assert pools(level, workers=1).call(good, "run", {}, deadline=soon()).value == expected
    still_works(pool)


def test_secrets_of_the_environment_are_nowhere_to_be_found(pools, level, monkeypatch):
    monkeypatch.setenv("TEST_WORKER_SECRET", "s3cr3t-of-the-server")
    pool = pools(level)
    body = """
found = str(dict(os.environ))
for number in [os.getpid(), os.getppid(), 1, server]:
    try:
        found += open(f"/proc/{number}/environ").read()
    except OSError:
        pass
return "s3cr3t-of-the-server" in found
"""
    # Without root, and without a wall, scripts and server are one user.
    is_apart = IS_ROOT or pool.level != "rlimits"
    assert tried(pool, body, server=os.getpid()) is not is_apart


@pytest.fixture
def outside():
    """A folder that everybody may reach and write to, with a secret and a file that everybody may read.

    Not below `tmp_path`: any pytest that starts meanwhile closes the folder of all of these to other users.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o777)
        (folder / "secret").write_text("s3cr3t")
        (folder / "secret").chmod(0o600)
        (folder / "open").write_text("for everybody")
        (folder / "open").chmod(0o644)
        yield folder


def test_a_file_of_the_owner_cannot_be_read(pool, outside):
    seen = tried(pool, "return open(path).read()", path=str(outside / "secret"))
    expected = {"bwrap": "FileNotFoundError", "landlock": "PermissionError", "rlimits": "PermissionError"}
    assert seen == (expected[pool.level] if IS_ROOT or pool.level != "rlimits" else "s3cr3t")


def test_a_file_for_everybody_can_be_read_at_the_lowest_level_only(pool, outside):
    seen = tried(pool, "return open(path).read()", path=str(outside / "open"))
    expected = {"bwrap": "FileNotFoundError", "landlock": "PermissionError", "rlimits": "for everybody"}
    assert seen == expected[pool.level]
    size = tried(pool, "return os.stat(path).st_size", path=str(outside / "open"))
    assert size == ("FileNotFoundError" if pool.level == "bwrap" else (outside / "open").stat().st_size)


def test_memory_and_semaphores_of_posix_are_files_that_only_some_levels_deny(pool):
    """What the table of `sandbox` says: below Landlock nothing looks at paths."""
    name = f"test-yard-{uuid.uuid4().hex}"
    bodies = {
        name: "import _posixshmem\nos.close(_posixshmem.shm_open(name, os.O_CREAT | os.O_RDWR, mode=0o600))",
        f"sem.{name}": "import _multiprocessing\n_multiprocessing.SemLock(1, 1, 1, name, False)",
        f"{name}-file": "open('/dev/shm' + name + '-file', 'w').close()",
    }
    for file, body in bodies.items():
        left = Path("/dev/shm", file)
        try:
            seen = tried(pool, f"{body}\nreturn 'made'", name=f"/{name}")
            assert left.exists() is (pool.level == "rlimits")
            assert seen == {"landlock": "PermissionError"}.get(pool.level, "made")
        finally:
            left.unlink(missing_ok=True)


def test_the_home_folder_and_the_password_file_are_out_of_reach(pool):
    home = os.path.expanduser("~")
    if IS_ROOT or pool.level != "rlimits":
        assert tried(pool, "return open('/etc/shadow').read()") in ("FileNotFoundError", "PermissionError")
    if pool.level != "rlimits" or os.stat(home).st_mode & 0o005 == 0:
        assert tried(pool, "return os.listdir(home)", home=home) in ("FileNotFoundError", "PermissionError")


def test_a_script_writes_into_its_own_folder_and_elsewhere_only_at_the_lowest_level(pool, outside):
    seen = tried(pool, "open(path, 'w').write('x')\nreturn 'written'", path=str(outside / "new"))
    expected = {"bwrap": "FileNotFoundError", "landlock": "PermissionError", "rlimits": "written"}
    assert seen == expected[pool.level]
    assert (outside / "new").exists() == (pool.level == "rlimits")
    own = "open('mine', 'w').write('x'); os.mkdir('d'); os.rename('mine', 'd/m')\nreturn open('d/m').read()"
    assert tried(pool, own) == "x"
    assert tried(pool, "open(os.environ['TMPDIR'] + '/t', 'w').write('x')\nreturn 'ok'") == "ok"
    for path in ("/usr/new", "/new", "/etc/new", os.path.dirname(os.__file__) + "/new.py"):
        assert tried(pool, "open(path, 'w')", path=path) in ("OSError", "PermissionError", "FileNotFoundError")


def test_the_folder_of_a_worker_is_removed_with_whatever_is_in_it(pools, level):
    pool = pools(level, workers=1)
    body = "os.makedirs('a/b'); open('a/b/c', 'w').write('x'); os.symlink('/etc', 'a/l'); os.fchmod(os.open('a/b', 0), 0)\nreturn os.getcwd()"
    folder = tried(pool, body)
    still_works(pool)
    pool.close()
    if level != "bwrap":
        assert not os.path.exists(os.path.dirname(folder))


def test_no_socket_can_be_made(pool):
    wanted = [
        (family, kind)
        for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET")
        for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW")
    ]
    body = "import socket\nsocket.socket(getattr(socket, family), getattr(socket, kind))\nreturn 'made'"
    made = {pair: tried(pool, body, family=pair[0], kind=pair[1]) for pair in wanted}
    assert made == dict.fromkeys(wanted, "PermissionError")


def test_system_calls_that_no_script_needs_are_refused(pool):
    body = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
ends = []
for call in [lambda: libc.unshare(0x10000000), lambda: libc.ptrace(16, os.getppid(), 0, 0), lambda: libc.mount(0, 0, 0, 0, 0),
             lambda: libc.syscall(425, 1, 0), lambda: libc.setns(0, 0), lambda: libc.chroot(b"/tmp"), lambda: libc.setuid(0) or 1]:
    ctypes.set_errno(0)
    ends.append((call(), ctypes.get_errno()))
return ends
"""
    ends = tried(pool, body)
    if IS_ROOT:
        assert ends == [[-1, 1]] * 7
    assert ends[:6] == [[-1, 1]] * 6


@pytest.mark.skipif(not IS_ROOT, reason="only root can become somebody else")
def test_scripts_of_root_run_as_nobody_without_capabilities(pool):
    body = "import ctypes\nreturn [os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), os.getresuid()]"
    uid, _ = identity(WorkerSettings())
    assert tried(pool, body) == [uid, uid, uid, [], [uid] * 3]
    assert tried(pool, "os.setuid(0)\nreturn 'root'") == "PermissionError"
    assert tried(pool, "os.setgroups([0])\nreturn 'root'") == "PermissionError"


def test_the_server_and_the_fork_server_cannot_be_signalled_but_by_their_own_user_at_the_lowest_level(pool):
    refused = {"sent"} if pool.level == "rlimits" and not IS_ROOT else {"PermissionError", "ProcessLookupError"}
    assert tried(pool, "os.kill(pid, 0)\nreturn 'sent'", pid=os.getpid()) in refused
    assert tried(pool, "os.kill(os.getppid(), 0)\nreturn 'sent'") in refused
    assert not pool._supervisor._fork_server.is_broken


def test_workers_cannot_look_into_each_other_nor_signal_each_other_where_the_level_promises_it(pools, level):
    pool = pools(level, workers=3)
    victim = script("import os\ndef run():\n    return os.getpid()\n", "victim.py")
    pid = pool.call(victim, "run", {}, deadline=soon()).value
    signalled = tried(pool, "os.kill(pid, 0)\nreturn 'sent'", pid=pid)
    assert signalled == ("sent" if level == "rlimits" else "PermissionError")
    if not (level == "rlimits" and pool._supervisor._fork_server.through):
        assert tried(pool, "return open(f'/proc/{pid}/mem', 'rb').fileno() > 0", pid=pid) == "PermissionError"
    assert pool.call(victim, "run", {}, deadline=soon()).value == pid


def test_limits_hold_for_files_sizes_and_memory_of_children(pools, level):
    pool = pools(level, files=40, file_bytes=1 << 20)
    assert tried(pool, "kept = [open('/dev/null') for _ in range(100)]") == "OSError"
    assert (
        tried(
            pool,
            "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopen('big', 'wb').write(b'x' * (4 << 20))",
        )
        == "OSError"
    )
    assert tried(pool, "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))") in (
        "ValueError",
        "PermissionError",
        "OSError",
    )
    body = "import subprocess, sys\nreturn subprocess.run([sys.executable, '-I', '-S', '-c', 'bytearray(10 << 30)'], capture_output=True).returncode != 0"
    assert tried(pool, body) in (True, "PermissionError")


def test_cpu_time_is_limited_where_asked(pools, ending_level):
    pool = pools(ending_level, cpu_seconds=1)
    with pytest.raises(ScriptFailed, match="SIGKILL|SIGXCPU"):
        pool.call(script("def run():\n    while True: pass\n"), "run", {}, deadline=soon())


def test_a_chain_of_processes_that_each_leave_their_parent_is_caught(ending_pool):
    name = uuid.uuid4().hex[:15]
    code = script(f"""{NAMING}
import os
def run(name):
    call_yourself(name)
    while True:
        try:
            if os.fork():
                os._exit(0)
            os.setsid()
        except OSError:
            pass
""")
    with pytest.raises(ScriptFailed, match="status 0"):
        ending_pool.call(code, "run", {"name": name}, deadline=soon())
    # It is hard to see one of them at any moment, so many looks must see none.
    until(lambda: not any(named(name) for _ in range(30)))
    still_works(ending_pool)
