"""What a tool says to an embedder, and that no text is embedded twice."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from insight.embedder_stub import HashEmbedder
from toolyard.insight.cache import ItemCache
from toolyard.insight.embeddings.vectors import KIND, build_tool_text, cached_vectors, vector_key
from toolyard.model.tool import Tool

TESTS = Path(__file__).parents[2]

WEATHER = Tool(
    "get_weather",
    "meteo",
    "Current weather.",
    {"type": "object", "properties": {"city": {"type": "string", "description": "Where"}, "day": {}}},
)


def test_a_text_has_name_description_and_parameters_and_no_namespace():
    assert build_tool_text(WEATHER) == (
        'This is a "get_weather" tool.\nCurrent weather.\nArgs:\ncity (string): Where\nday'
    )
    assert build_tool_text(WEATHER.replace(namespace="other")) == build_tool_text(WEATHER)


def test_what_a_tool_returns_is_part_of_its_text_if_it_is_known():
    known = WEATHER.replace(output_parameters={"properties": {"temperature": {"type": ["number", "null"]}}})
    assert build_tool_text(known) == build_tool_text(WEATHER) + "\nReturns:\ntemperature (number or null)"


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": []}, {"$ref": "#/x"}, {"properties": {}}])
def test_a_tool_without_parameters_has_no_arguments_in_its_text(schema):
    assert build_tool_text(Tool("f", "n", "", schema)) == 'This is a "f" tool.'


def test_parameters_with_unusual_schemas_are_named_in_the_text():
    schema = {"properties": {"a": True, "b": {"type": 3, "description": 4}}}
    assert build_tool_text(Tool("f", "n", "", schema)).endswith("Args:\na\nb")


def test_equal_texts_are_embedded_once_and_rows_are_in_order(tmp_path):
    embedder = HashEmbedder()
    texts = ["bb", "a", "bb", "ccc", "a"]
    rows = cached_vectors(embedder, texts, ItemCache(tmp_path))
    assert sorted(embedder.texts) == ["a", "bb", "ccc"]
    assert np.array_equal(rows, np.stack([embedder.one(text) for text in texts]))


def test_one_new_text_is_embedded_alone(tmp_path):
    texts = [f"text {number}" for number in range(50)]
    first = cached_vectors(HashEmbedder(), texts, ItemCache(tmp_path))
    embedder = HashEmbedder()
    again = cached_vectors(embedder, [*texts, "new"], ItemCache(tmp_path))
    assert embedder.texts == ["new"]
    assert np.array_equal(again[:50], first)


@pytest.mark.parametrize("other", [{"version": "2"}, {"name": "another"}])
def test_vectors_are_cached_by_model_and_version(tmp_path, other):
    cached_vectors(HashEmbedder(), ["a", "b"], ItemCache(tmp_path))
    embedder = HashEmbedder(**other)
    rows = cached_vectors(embedder, ["a", "b"], ItemCache(tmp_path))
    assert sorted(embedder.texts) == ["a", "b"]
    assert np.array_equal(rows[0], embedder.one("a"))


def test_force_embeds_again_and_writes(tmp_path):
    cache = ItemCache(tmp_path)
    cached_vectors(HashEmbedder(), ["a"], cache)
    embedder = HashEmbedder()
    cache.put_many(KIND, [(vector_key(embedder, "a"), np.zeros(8, np.float32).tobytes())])
    rows = cached_vectors(embedder, ["a"], cache, force=True)
    assert embedder.texts == ["a"]
    assert np.array_equal(rows, cached_vectors(HashEmbedder(), ["a"], cache))


def test_vectors_of_another_length_under_the_same_name_are_embedded_again(tmp_path):
    cached_vectors(HashEmbedder(dimensions=8), ["a", "b"], ItemCache(tmp_path))
    embedder = HashEmbedder(dimensions=16)
    rows = cached_vectors(embedder, ["a", "b", "c"], ItemCache(tmp_path))
    assert np.array_equal(rows, np.stack([embedder.one(text) for text in "abc"]))
    assert cached_vectors(embedder, ["a"], ItemCache(tmp_path)).shape == (1, 16)


def test_without_a_cache_everything_is_embedded():
    embedder = HashEmbedder()
    assert cached_vectors(embedder, ["a", "b", "a"]).shape == (3, 8)
    assert embedder.texts == ["a", "b"]


def test_no_texts_give_no_rows_of_the_right_width(tmp_path):
    assert cached_vectors(HashEmbedder(), [], ItemCache(tmp_path)).shape == (0, 8)


def test_batches_have_the_size_that_the_embedder_sets(tmp_path):
    embedder = HashEmbedder(batch=3)
    cached_vectors(embedder, [str(number) for number in range(8)], ItemCache(tmp_path))
    assert [len(batch) for batch in embedder.asked] == [3, 3, 2]


@pytest.mark.process
def test_a_process_that_is_killed_loses_nothing_that_was_finished(tmp_path):
    code = (
        "import os, signal\n"
        "from insight.embedder_stub import HashEmbedder\n"
        "from toolyard.insight.cache import ItemCache\n"
        "from toolyard.insight.embeddings.vectors import cached_vectors\n"
        "class Dies(HashEmbedder):\n"
        "    def encode(self, texts):\n"
        "        if len(self.asked) == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().encode(texts)\n"
        f"cached_vectors(Dies(), [f'text {{n:02}}' for n in range(40)], ItemCache({str(tmp_path)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, timeout=60)
    assert done.returncode == -signal.SIGKILL
    embedder = HashEmbedder()
    cached_vectors(embedder, [f"text {number:02}" for number in range(40)], ItemCache(tmp_path))
    assert len(embedder.texts) == 40 - 5 * embedder.batch


ENDING = """
import sys, time
from toolyard import Tool, ToolRegistry
from toolyard.insight.search.searcher import Searcher

tools = [Tool(f"tool_{n}", "many", f"Does the thing of number {n} for somebody who is called {n * 7}.") for n in range(400)]
snapshot = ToolRegistry(tools).snapshot
print(Searcher(cache=False).search(snapshot, "the thing", wait=False).mode)
time.sleep(float(sys.argv[1]))
"""


BEFORE_THE_END = """
import time
from concurrent.futures import ThreadPoolExecutor
from toolyard.insight.embeddings.vectors import Background

def work():
    while True:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(str, range(4)))

def wrong():
    raise RuntimeError("a defect")

defective = Background(target=wrong)
defective.start()
defective.join()
Background(target=work).start()
# Python has closed its pools and still waits for this one: nothing new is taken, and the main thread is alive.
ThreadPoolExecutor(1).submit(time.sleep, 0.5)
"""


@pytest.mark.process
def test_a_background_thread_ignores_shutdown_errors_but_raises_defects():
    done = subprocess.run([sys.executable, "-c", BEFORE_THE_END], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("Traceback") == 1
    assert "RuntimeError: a defect" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("after", [0, 1.5])
def test_a_program_exits_cleanly_while_vectors_are_computed_in_the_background(after):
    done = subprocess.run([sys.executable, "-c", ENDING, str(after)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "lexical\n", "")
