"""Every block of docs/adapters.md runs, with the framework it is for."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from .model_server import ModelServer
from .test_loops import DESK, is_installed
from .yard import HELD, make_engine

pytestmark = pytest.mark.process

PAGE = Path(__file__).resolve().parents[2] / "docs/adapters.md"
BLOCKS = dict(re.findall(r'```python title="([\w-]+)"\n(.*?)```', PAGE.read_text(), re.DOTALL))
MODULES = {
    "pydantic-ai": "pydantic_ai",
    "langchain": "langchain",
    "openai-agents": "agents",
    "agent-framework": "agent_framework",
    "llama-index": "llama_index.tools.mcp",
    "smolagents": "smolagents",
    "crewai": "crewai_tools",
    "google-adk": "google.adk",
}
ADAPTERS = tuple(MODULES)[:4]
CLIENTS = tuple(MODULES)[4:]


def mark_all(frameworks: Iterable[str]) -> list[Any]:
    here = {name: pytest.mark.elsewhere(is_installed(MODULES[name]), "make test-frameworks") for name in frameworks}
    return [pytest.param(name, marks=mark) for name, mark in here.items()]


def make_model(framework: str, url: str) -> Any:
    """The model of the framework at an endpoint of ours, as its own words have it."""
    if framework == "pydantic-ai":
        provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=url, api_key="none")
        return import_module("pydantic_ai.models.openai").OpenAIChatModel("fake", provider=provider)
    if framework == "langchain":
        made = import_module("langchain_openai").ChatOpenAI
        return made(base_url=url, api_key="none", model="fake", use_responses_api=False)
    if framework == "openai-agents":
        client = import_module("openai").AsyncOpenAI(base_url=url, api_key="none")
        import_module("agents").set_trace_processors([])
        return import_module("agents").OpenAIResponsesModel("fake", openai_client=client)
    return import_module("agent_framework.openai").OpenAIChatClient(model="fake", base_url=url, api_key="none")


def test_every_framework_has_its_block() -> None:
    assert set(BLOCKS) == set(MODULES)


@pytest.mark.parametrize("framework", mark_all(ADAPTERS))
def test_the_block_of_an_adapter_approves_a_call_and_goes_on(
    framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = make_engine()
    with ModelServer(HELD.call) as server:
        model = make_model(framework, server.url)
        exec(BLOCKS[framework], {"engine": engine, "model": model, "client": model})
    assert capsys.readouterr().out.strip() == "done"
    assert engine.histories() == [[(HELD.call.call_id, "refunded")]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A yard that is served by a process of its own."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "desk.py").write_text(DESK)
    (folder / "yard.yaml").write_text("tools: {registry: [{type: python, target: desk.py, namespace: desk}]}")
    command = [sys.executable, "-m", "toolyard", "serve", "yard.yaml", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = next(json.loads(line) for line in process.stdout if line.startswith("{"))
        yield ready["url"]
        process.terminate()


def make_adk_model() -> Any:
    """A model of ADK that makes one call and repeats what it was told."""
    models, types = import_module("google.adk.models"), import_module("google.genai.types")

    class OneCall(models.BaseLlm):  # type: ignore[misc, name-defined]
        async def generate_content_async(self, request: Any, stream: bool = False) -> Any:
            told = request.contents[-1].parts[-1].function_response
            part = types.Part.from_function_call(name="desk__split_bill", args={"total": 90, "people": 3})
            if told is not None:
                part = types.Part.from_text(text=told.response["content"][0]["text"])
            yield models.LlmResponse(content=types.Content(role="model", parts=[part]))

    return OneCall(model="fake")


@pytest.mark.parametrize("framework", mark_all(CLIENTS))
def test_the_block_of_a_client_calls_a_tool_over_mcp(
    framework: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"model": make_adk_model()} if framework == "google-adk" else {}
    exec(BLOCKS[framework].replace("http://127.0.0.1:8000", url), given)
    assert capsys.readouterr().out.splitlines()[-1] == "30.0"
