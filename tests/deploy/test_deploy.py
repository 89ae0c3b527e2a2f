"""What operators deploy: manifests and compose file by their published schemas, the unit by systemd, all of one yard.

The schemas are packages of many megabytes, which `make test-deploy` fetches; it runs the image's steps, too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from deploy import image_steps
from toolyard.app.config import read_config
from toolyard.parsing import parse_yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / ".venv-deploy"
MANIFESTS = {
    f"{path.stem}-{document['kind']}": document
    for path in [*sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml")), ROOT / "deploy" / "first-key.yaml"]
    for document in yaml.safe_load_all(path.read_text())
}
STEPS = image_steps.read_steps((ROOT / "Dockerfile").read_text())
SAID = dict(STEPS)
needs_schemas = pytest.mark.elsewhere(SCHEMAS.is_dir(), "make test-deploy")


@pytest.fixture
def schemas(monkeypatch):
    monkeypatch.syspath_prepend(str(SCHEMAS))


def pod(document):
    return document["spec"]["template"]["spec"]


@needs_schemas
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["1.32", "1.37"])
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_what_the_schemas_of_kubernetes_say(schemas, name, version):
    import kubernetes_validate

    assert kubernetes_validate.validate(MANIFESTS[name], version, strict=True) == version
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**MANIFESTS[name], "spek": {}}, version, strict=True)


@needs_schemas
@pytest.mark.filterwarnings("ignore")
def test_the_compose_file_is_what_its_schema_says(schemas):
    from compose_spec import PyCompose

    text = (ROOT / "compose.yaml").read_text()
    PyCompose.from_yaml(text).validate()
    with pytest.raises(ValueError, match="read_only_root"):
        PyCompose.from_yaml(text.replace("read_only:", "read_only_root:"))


@pytest.mark.process
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_the_unit_is_understood_and_exposes_little(tmp_path):
    unit = tmp_path / "toolyard.service"
    # The program is not where it will be.
    unit.write_text(
        (ROOT / "deploy" / "toolyard.service").read_text().replace("/opt/toolyard/bin/toolyard", sys.executable)
    )
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=25", str(unit)], capture_output=True, text=True
    )
    assert judged.returncode == 0, judged.stdout[-200:]


def test_every_way_of_deploying_serves_the_same_yard():
    text = (ROOT / "deploy" / "yard.yaml").read_text()
    assert MANIFESTS["configmap-ConfigMap"]["data"]["yard.yaml"] == text
    read = read_config(parse_yaml(text), base=ROOT, env={"TOOLYARD_DSN": "postgresql://u:the-password@db/t"})
    assert read.sessions.store == "postgres" and any("the-password" in secret for secret in read.secrets)
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["toolyard"]
    config = re.search(r"TOOLYARD_CONFIG=(\S+)", SAID["ENV"])[1]
    assert f"./deploy/yard.yaml:{config}:ro" in compose["volumes"]
    for name in ("deployment-Deployment", "first-key-Job"):
        container = pod(MANIFESTS[name])["containers"][0]
        assert f"{container['volumeMounts'][0]['mountPath']}/yard.yaml" == config
        assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "toolyard", "key": "dsn"}


def test_the_page_shows_the_yard_and_every_variable_of_the_image():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert (ROOT / "deploy" / "yard.yaml").read_text() in page
    set_here = re.findall(r"(TOOL\w+|HOME)=(\S+)", (ROOT / "Dockerfile").read_text())
    assert len(set_here) == 4 and all(f"`{name}`" in page and f"`{value}`" in page for name, value in set_here)


def test_nothing_that_is_deployed_runs_as_root_or_writes_to_its_root():
    assert SAID["USER"] == "10001:10001"
    for name in ("deployment-Deployment", "first-key-Job"):
        spec = pod(MANIFESTS[name])
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10001
        rights = spec["containers"][0]["securityContext"]
        assert rights["readOnlyRootFilesystem"] and rights["capabilities"] == {"drop": ["ALL"]}
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["toolyard"]
    assert compose["read_only"] and compose["cap_drop"] == ["ALL"]


def test_probes_and_the_health_check_ask_what_the_server_answers():
    container = pod(MANIFESTS["deployment-Deployment"])["containers"][0]
    asked = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    program = json.loads(SAID["HEALTHCHECK"].partition(" CMD ")[2])
    assert program[:2] == ["python", "-c"] and "/readyz" in program[2]
    compile(program[2], "health check", "exec")
    port = re.search(r"TOOL_REGISTRY_PORT=(\d+)", SAID["ENV"])[1]
    assert [port, str(container["ports"][0]["containerPort"])] == [SAID["EXPOSE"]] * 2


def test_all_that_the_image_copies_is_there_and_is_sent_to_the_builder():
    sent = [
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    ]
    copied = [name for word, rest in STEPS if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert copied and all((ROOT / name).exists() and any(fnmatch(name, pattern) for pattern in sent) for name in copied)


@pytest.mark.soak
@pytest.mark.process
def test_the_steps_of_the_image_make_a_server_that_is_healthy_and_small(tmp_path):
    done = subprocess.run(
        [sys.executable, str(Path(image_steps.__file__))], env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # python:3.13-slim is 45 MB.
    assert float(re.search(r"is ([\d.]+) MB compressed", done.stdout)[1]) < 105
