"""The OpenAPI document is true: requests made up from it are answered as it says, whatever they are."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SOAK, examples
from serving.service_support import desk_tools, served

pytestmark = pytest.mark.process

# What these two take is not all in their schema: a definition must be a valid JSON Schema itself, and arguments must
# fit the schema of the tool that is called.
CONFIG = """
[[operations]]
include-name = "PUT /v1/tools/{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409"]

[[operations]]
include-name = "POST /v1/tools/{name}:invoke"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409"]

# No schema can say which cursors were given out: those that were not are refused.
[[operations]]
include-name = "GET /v1/approvals"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404"]

[[operations]]
include-name = "GET /v1/calls"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404"]

[[operations]]
include-name = "GET /v1/sessions"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404"]

[[operations]]
include-name = "GET /v1/tools"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404"]

# It does not end by itself: what there is comes at once.
[[operations]]
include-name = "GET /v1/events"
request-timeout = 0.5
"""


@pytest.mark.parametrize("seed", [1])
def test_no_request_made_up_from_the_document_gets_an_answer_that_is_not_in_it(tmp_path, seed):
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    command = Path(sys.executable).with_name("schemathesis")
    # Tools that fail on purpose are left out: on the first wire a tool's failure is a 500, and rightly so.
    failing = {"refuse", "crash", "infinite"}
    tools = [tool for tool in desk_tools() if tool.name not in failing]
    with served(tools=tools, metrics=True) as yard:
        paths = yard.get("/openapi.json").json["paths"]
        operations = sum(len(methods) for path, methods in paths.items() if path != "/openapi.json")
        done = subprocess.run(
            [
                *(command, "--config-file", "schemathesis.toml", "run", f"{yard.url}/openapi.json", "--no-color"),
                *(
                    "--max-examples",
                    str(examples(4)),
                    # Those of the document and of each limit that it names; made-up ones and chains of them in make soak.
                    "--phases",
                    "examples,coverage,fuzzing,stateful" if SOAK else "examples,coverage",
                    "--workers",
                    "1",
                    "--seed",
                    str(seed),
                    "--generation-database",
                    "none",
                ),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    tested = re.search(r"Tested:\s+(\d+)", done.stdout)
    assert tested is not None and int(tested[1]) == operations, done.stdout
    generated = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert generated is not None and generated[1] == generated[2] and int(generated[1]) > 300


def test_the_document_can_be_had_without_a_key_and_is_openapi():
    with served() as yard:
        document = yard.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert json.dumps(document)
