"""A Python process with preloaded imports that forks for every program, which saves the startup time.

For tests of a program's behaviour; tests of startup or imports must start a fresh interpreter.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphaned descendants of this process become its children."""
_LONGEST = 1 << 20
_ASKING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ask_warm_python.py")


class WarmPython:
    """Runs programs in children of one process that has imported `modules`; `toolyard.*` means all of toolyard."""

    def __init__(self, *modules):
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory()
        self._place = os.path.join(self._folder.name, "asked")
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self._place)
            listener.listen()
            passed = (theirs.fileno(), listener.fileno())
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, passed), *modules],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def start(self, words, **options):
        """Like `subprocess.Popen([sys.executable, *words], **options)`; the process is a real child of this one."""
        return _WarmProcess(self, [str(word) for word in words], **options)

    def run(self, words, *, strict=False, input=None, timeout=None, **options):  # noqa: A002 - its name
        """Like `subprocess.run([sys.executable, *words], capture_output=True, text=True)`; `strict` adds `-W error`."""
        options = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        if input is not None:
            options["stdin"] = subprocess.PIPE
        with self.start(["-W", "error", *words] if strict else words, **options) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def fork(self, words, cwd, env, streams):
        """Run the program in a process whose parent is this process; returns its id."""
        wanted = {"words": words, "cwd": str(cwd or os.getcwd()), "env": dict(os.environ if env is None else env)}
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            # The process is orphaned at once and adopted by this one; other orphans must not be.
            prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._line, [marshal.dumps(wanted)], streams)
                return int(self._line.recv(100))
            finally:
                prctl(_SUBREAPER, 0, 0, 0, 0)

    def command(self, *words):
        """A command for other programs to start: it has the warm Python fork the program, and exits with its status."""
        return [sys.executable, "-I", "-S", _ASKING, self._place, *map(str, words)]

    def close(self):
        self._line.close()
        self._process.wait()
        self._folder.cleanup()


class _WarmProcess(subprocess.Popen):
    """A `Popen` for a forked process; pipes, waiting and signals are inherited."""

    def __init__(self, python, words, **options):
        self._python, self._words = python, words
        super().__init__([sys.executable, *words], **options)

    def _execute_child(self, args, executable, _preexec, _close, _pass, cwd, env, *more):
        _startup, _flags, _shell, stdin, to_stdin, from_stdout, stdout, from_stderr, stderr, *_ = more
        sys.audit("subprocess.Popen", executable, args, cwd, env)
        streams = [ours if given == -1 else given for ours, given in enumerate((stdin, stdout, stderr))]
        self.pid = self._python.fork(self._words, cwd, env, streams)
        self._child_created = True
        self._close_pipe_fds(stdin, to_stdin, from_stdout, stdout, from_stderr, stderr)


@functools.cache
def warm_toolyard():
    """The shared instance of this process, with all of toolyard imported, and what it imports when help is asked for."""
    found = WarmPython("toolyard.*", "cyclopts.help", "docstring_parser", "pydantic.dataclasses", "rich.markdown")
    atexit.register(found.close)
    return found


def _answer(line, paths):
    """Handle one connection in a separate process: fork the program, and send back its exit status."""
    wanted, streams, _, _ = socket.recv_fds(line, _LONGEST, 3)
    child = os.fork()
    if child == 0:
        _become(marshal.loads(wanted), streams, paths)
    if line in select.select([os.pidfd_open(child), line], [], [])[0]:
        os.kill(child, signal.SIGKILL)  # the requesting process has ended, so end its program too
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    line.send(str(status if status >= 0 else 128 - status).encode())
    os._exit(0)


def _serve(line, listener, paths):
    """Fork a program for every request."""
    asked = set()
    while True:
        asked -= {child for child in asked if os.waitpid(child, os.WNOHANG)[0]}
        if listener in select.select([line, listener], [], [])[0]:
            with listener.accept()[0] as another:
                asked.add(os.fork())
                if 0 in asked:
                    _answer(another, paths)
            continue
        wanted, streams, _, _ = socket.recv_fds(line, _LONGEST, 3)
        if not wanted:
            return
        read, write = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                line.close()
                _become(marshal.loads(wanted), streams, paths)
            os.write(write, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        line.send(os.read(read, 100))
        for number in (read, write, *streams):
            os.close(number)


def _become(wanted, streams, paths):
    """Run the requested program as if this process had just been started with it."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    open_stream = functools.partial(open, encoding=wanted["env"].get("PYTHONIOENCODING"), closefd=False)
    sys.stdin = sys.__stdin__ = open_stream(0)
    sys.stdout = sys.__stdout__ = open_stream(1, "w")
    sys.stderr = sys.__stderr__ = open_stream(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    given = wanted["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = ["", *filter(None, given), *paths]
    code = 1
    try:
        code = _run(wanted["words"])
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        _end(code)


def _run(words):
    if words[0] == "-W":
        warnings.simplefilter(words[1])
        words = words[2:]
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.modules["__main__"].__dict__.pop("__file__", None)
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = words, os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    return 0


def _end(code):
    """Exit like the interpreter, without its teardown."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or 120
    os._exit(code or 0)


def _import_modules(names):
    for name in names:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                # The frameworks that adapters are for may not be installed.
                if not found.name.endswith(("__main__", "pytest_plugin")) and ".adapters." not in found.name:
                    importlib.import_module(found.name)


if __name__ == "__main__":
    stock = sys.path[1:]
    gc.disable()
    _import_modules(sys.argv[3:])
    # Exclude imported objects from garbage collection, so that children do not scan them and copy their pages.
    gc.freeze()
    gc.enable()
    _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:3]), stock)
