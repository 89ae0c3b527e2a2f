"""The published checker of the protocol, scenario by scenario, against our server and our client."""

import json
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest
from warm_python import warm_toolyard

from conftest import SOAK
from mcp_rig import install
from mcp_rig.processes import START, start_url_server, toolyard_command
from mcp_rig.real_servers import require_installed

pytestmark = pytest.mark.process

TESTS = Path(__file__).resolve().parents[1]
YARD = TESTS / "serving" / "mcp"

CONTENT = {f"tools-call-{kind}" for kind in ("simple-text", "image", "audio", "embedded-resource", "mixed-content")}
BOTH = {
    *CONTENT,
    *("tools-list", "tools-call-error", "tools-call-with-progress", "json-schema-2020-12"),
    *("server-sse-multiple-streams", "dns-rebinding-protection"),
}
OURS = {
    "2025-11-25": {
        *BOTH,
        *("server-initialize", "server-session-lifecycle", "ping", "logging-set-level", "tools-call-with-logging"),
    },
    "2026-07-28": {
        *BOTH,
        *("server-stateless", "http-header-validation", "http-custom-header-server-validation"),
    },
}
NOT_OURS = ("resources-", "prompts-", "completion-", "input-required-", "elicitation-", "tasks-", "sep-")
"""What a server of tools does not offer: resources, prompts, completion, and questions back to the client."""
PARTLY = {"tools-call-sampling", "tools-call-elicitation", "caching", "server-sse-polling"}
"""Asks the client back, wants lists of prompts and resources too, or that a stream be resumed."""


def run(kind, *words, folder):
    """Run the checker; the checks of each scenario, by its name."""
    program = require_installed(install.packages) / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    done = subprocess.run(
        [install.node(), program, kind, "-o", folder, *words], capture_output=True, text=True, timeout=3 * START
    )
    checks = {}
    for path in folder.rglob("checks.json"):
        # The folder is called `server-NAME-2026-11-15T11-20-28-603Z`, or `auth/NAME-2026-11-15T11-20-28-603Z`.
        found = path.parent.relative_to(folder).as_posix()
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", found.removeprefix(f"{kind}-"))
        assert name not in checks
        checks[name] = json.loads(path.read_text())
    assert checks, done.stdout + done.stderr
    return checks


@pytest.fixture(scope="module")
def server():
    """Where the tools that the checker asks for are served."""
    with start_url_server(
        toolyard_command("serve", YARD / "conformance_yard.yaml", "--port", "0"), {"PYTHONPATH": str(YARD)}
    ) as served:
        yield f"{served[0]}/mcp"


@pytest.fixture(scope="module")
def checked(server, tmp_path_factory):
    """The checks of every scenario of a version, run once."""

    @cache
    def of(version):
        words = ("--url", server, "--spec-version", version, "--suite", "all")
        return run("server", *words, folder=tmp_path_factory.mktemp("server"))

    return of


ALLOWED = {
    # There are no prompts that could change.
    ("sep-2575-server-sends-prompts-list-changed-on-subscription", "SKIPPED"),
    # Nobody answers what the server would ask for, so it is not offered.
    ("sep-2575-client-declares-roots-capability", "SKIPPED"),
    ("sep-2575-client-declares-sampling-capability", "SKIPPED"),
    # Said once for each method, and a client of tools uses none of resources and prompts.
    ("sep-2243-client-includes-standard-headers", "SKIPPED"),
}


def bad(checks):
    """Whatever is not a success: warnings and skipped checks too, unless there is a reason for it."""
    return [
        check
        for check in checks
        if check["status"] not in {"SUCCESS", "INFO"} and (check["id"], check["status"]) not in ALLOWED
    ]


@pytest.mark.parametrize(("version", "scenario"), [(v, s) for v, found in OURS.items() for s in sorted(found)])
def test_our_server_passes(checked, version, scenario):
    checks = checked(version)[scenario]
    assert any(check["status"] == "SUCCESS" for check in checks)
    assert not bad(checks), json.dumps(bad(checks), indent=1)


@pytest.mark.parametrize("version", OURS)
def test_every_scenario_is_either_ours_or_known_not_to_be(checked, version):
    assert OURS[version] <= set(checked(version))
    left = {name for name in set(checked(version)) - OURS[version] - PARTLY if not name.startswith(NOT_OURS)}
    assert left == set()


LOGIN = {f"auth/{name}" for name in ("metadata-default", "scope-step-up", "token-endpoint-auth-basic")}
CLIENT = {
    "2025-11-25": {
        # Logging in knows no version of the protocol.
        *(LOGIN if SOAK else ()),
        *("initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"),
        "json-schema-2020-12-preservation",
    },
    "2026-07-28": {
        *LOGIN,
        *(
            "tools_call",
            "request-metadata",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
        ),
        *("json-schema-ref-no-deref", "json-schema-2020-12-preservation", "sep-2322-client-request-state"),
    },
}


IF_WANTED = """case " $WANTED " in *" $MCP_CONFORMANCE_SCENARIO "*) exec flock "$TURN" "$@";; esac"""
"""Started for all scenarios of a suite at once: ends at once for most, and runs our client for one after the other."""


@pytest.fixture(scope="module")
def client_checks(tmp_path_factory):
    """The checks of our client in every wanted scenario of a version, run once."""
    client = warm_toolyard().command(TESTS / "links" / "mcp" / "conformance_client.py")
    command = shlex.join(["sh", "-c", IF_WANTED, "sh", *client])

    @cache
    def of(version):
        folder = tmp_path_factory.mktemp("client")
        words = ("--command", command, "--spec-version", version, "--timeout", str(1000 * START), "--suite", "all")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WANTED", " ".join(CLIENT[version]))
            patch.setenv("TURN", str(folder / "turn"))
            return run("client", *words, folder=folder)

    return of


@pytest.mark.parametrize(("version", "scenario"), [(v, s) for v, found in CLIENT.items() for s in sorted(found)])
def test_our_client_passes(client_checks, version, scenario):
    checks = client_checks(version)[scenario]
    assert any(check["status"] == "SUCCESS" for check in checks)
    assert not bad(checks), json.dumps(bad(checks), indent=1)
