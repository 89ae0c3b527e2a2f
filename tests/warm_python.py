"""A Python that has imported what tests need already: it forks for every run, so that a run costs no start.

For tests of what a program says and does; one that is about starting or importing starts a Python of its own.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path


class WarmPython:
    """Runs programs in children of one process that has imported `modules`."""

    def __init__(self, *modules, env=None):
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, words, *, cwd=None, env=None, strict=False):
        """As `subprocess.run([sys.executable, *words], capture_output=True, text=True)`; `strict` is `-W error`."""
        out, err = (Path(self._folder.name) / name for name in ("out", "err"))
        place = str(cwd or os.getcwd())
        wanted = {"words": [str(word) for word in words], "cwd": place, "env": {**os.environ, **(env or {})}}
        print(
            json.dumps({**wanted, "strict": strict, "out": str(out), "err": str(err)}),
            file=self._process.stdin,
            flush=True,
        )
        code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())

    def close(self):
        self._process.communicate()
        self._folder.cleanup()


def _serve():
    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(wanted)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(wanted):
    """The program that is wanted, as if this process had just started with it."""
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, wanted["out"], None), (2, wanted["err"], None)):
        found = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if flags is None else flags)
        os.dup2(found, number)
        os.close(found)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    if wanted["strict"]:
        warnings.simplefilter("error")
    code = 1
    try:
        code = _run(wanted["words"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


def _run(words):
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
        sys.modules["__main__"].__dict__.pop("__file__", None)
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = words, os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    _serve()
