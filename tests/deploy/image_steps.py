"""Carries out the steps of the Dockerfile without a builder, in roots of their own, and starts what they make.

A stage is a folder that is the root of its commands (`unshare`, `chroot`); of this machine it sees what the base image has:
Python, the C library, certificates. What runs in the end sees it read-only, as a cluster would have it, and the
image's own health check is asked. `make image-steps` runs it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
BASE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/dev", "/sys"),
    *("/etc/ssl", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/pip.conf"),
)
"""What the base image brings, and what a builder lends it."""
KNOWN = {
    "ARG",
    "FROM",
    "WORKDIR",
    "COPY",
    "RUN",
    "ENV",
    "USER",
    "VOLUME",
    "EXPOSE",
    "STOPSIGNAL",
    "HEALTHCHECK",
    "ENTRYPOINT",
    "CMD",
}


def read_steps(text):
    """Every instruction with its words, lines joined and comments left out."""
    lines = re.sub(r"\\\n", " ", "".join(line for line in text.splitlines(True) if not line.startswith("#")))
    steps = [line.split(None, 1) for line in lines.splitlines() if line.strip()]
    assert {word for word, _ in steps} <= KNOWN, "this script does not know all of them"
    return steps


class Stage:
    """One `FROM` of a Dockerfile."""

    def __init__(self, folder):
        self.root = folder
        self.workdir = "/"
        self.env = {}
        self.said = {}

    def place(self, path):
        return self.root / os.path.normpath(os.path.join(self.workdir, path)).lstrip("/")

    def copy(self, words, stages):
        given = shlex.split(words)
        source = CHECKOUT
        if given[0].startswith("--from="):
            source = stages[given.pop(0).partition("=")[2]].root
        *names, target = given
        for name in names:
            found, into = source / name.lstrip("/"), self.place(target)
            if found.is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(found, into, symlinks=True, dirs_exist_ok=True, ignore=ignore)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, into)

    def command(self, words, *, read_only=False):
        """What runs it with this stage for a root."""
        python, root = os.path.realpath(sys.base_prefix), shlex.quote(str(self.root))
        seen = [*BASE, *([] if python.startswith("/usr") else [python]), *os.environ.get("IMAGE_STEPS_SEE", "").split()]
        lines = [f"mount --bind {root} {root}"]
        for path in filter(os.path.exists, seen):
            make = "mkdir -p" if os.path.isdir(path) else "touch"
            lines.append(
                f"mkdir -p {root}{os.path.dirname(path)} && {make} {root}{path} && mount --rbind {path} {root}{path}"
            )
            if path not in ("/proc", "/dev", "/sys"):
                lines.append(f"mount -o remount,bind,ro {root}{path}")
        lines.append(f"mkdir -p {root}/tmp && mount -t tmpfs none {root}/tmp")
        if read_only:
            lines.append(f"mount --bind {root}/data {root}/data && mount -o remount,bind,ro {root}")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", **self.env}
        env["PATH"] += f":{python}/bin"
        env |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        inner = shlex.quote(f"cd {shlex.quote(self.workdir)} && exec {words}")
        lines.append(f"exec chroot {root} /usr/bin/env -i {settings} sh -c {inner}")
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", "\n".join(lines)]


def build(folder):
    """The stages, each carried out; the last one is the image."""
    stages, stage = {}, None
    for word, rest in read_steps((CHECKOUT / "Dockerfile").read_text()):
        if word == "FROM":
            name = rest.split(" AS ")[1] if " AS " in rest else "image"
            stage = stages[name] = Stage(folder / name)
            stage.root.mkdir()
        elif word == "WORKDIR":
            stage.workdir = rest
            stage.place(".").mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            stage.copy(rest, stages)
        elif word == "RUN":
            sys.stdout.write(f"RUN {rest}\n")
            subprocess.run(stage.command(f"sh -ec {shlex.quote(rest)}"), check=True)
        elif word == "ENV":
            stage.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        elif stage is not None:
            stage.said[word] = rest
    return stages["image"]


def compressed_bytes(folder):
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            archive.add(folder, arcname=".")
        return file.tell()


def main():
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        image = build(Path(name))
        size = compressed_bytes(image.root / "opt" / "toolyard")
        (image.root / "data" / "yard.yaml").write_text(
            "tools: [{type: domains, domains: [core]}]\nsessions: {store: sqlite, path: /data/yard.db}\n"
        )
        image.env |= {"TOOLYARD_CONFIG": "/data/yard.yaml", "TOOL_REGISTRY_PORT": "18923"}
        start = json.loads(image.said["ENTRYPOINT"])
        made = subprocess.run(
            image.command(shlex.join([*start, "key", "create", "me", "--scope", "*:*"])), capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
        command = shlex.join([*start, *json.loads(image.said["CMD"])])
        server = subprocess.Popen(image.command(command, read_only=True), stdout=subprocess.PIPE, text=True)
        try:
            said = server.stdout.readline()
            check = shlex.join(json.loads(image.said["HEALTHCHECK"].partition(" CMD ")[2]))
            healthy = subprocess.run(image.command(check)).returncode == 0
        finally:
            server.terminate()
            ended = server.wait(60)
        sys.stdout.write(
            f"{said}healthy: {healthy}; ended with {ended}; /opt/toolyard is {size / 1e6:.1f} MB compressed\n"
        )
        return 0 if healthy and ended == 0 else 1


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
    sys.exit(code)
