"""A server that speaks `/embeddings`, on loopback."""

import numpy as np
import pytest

from insight.embedding_server import EmbeddingServer, vector
from toolyard import EmbeddingsEnrichment, Tool, ToolRegistry
from toolyard.insight.embeddings.embedder import resolve_embedder
from toolyard.insight.embeddings.remote import AT_ONCE, RemoteEmbedder
from toolyard.model.errors import ConfigError, EnrichmentError

SECRET = "sk-very-secret-1"


@pytest.fixture
def server():
    found = EmbeddingServer()
    yield found
    found.close()


def remote(server, pauses=None, **options):
    block = {"type": "openai", "model_id_or_path": "embed-1", "base_url": server.url, **options}
    pauses = [] if pauses is None else pauses
    return RemoteEmbedder(block, sleep=pauses.append)


def test_texts_are_sent_and_rows_come_back_in_order_and_of_length_one(server):
    one = remote(server, api_key=SECRET, extra={"dimensions": 3})
    rows = one.encode(["a", "four", ""])
    one.close()
    path, headers, body = server.asked[0]
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert body == {"model": "embed-1", "input": ["a", "four", " "], "dimensions": 3}
    exact = np.array([vector("a"), vector("four"), vector(" ")], np.float32)
    assert np.allclose(rows, exact / np.linalg.norm(exact, axis=1, keepdims=True), atol=1e-6)


def test_many_texts_go_in_several_requests_and_stay_in_order(server):
    one = remote(server)
    texts = ["x" * (number % 50 + 1) for number in range(AT_ONCE * 3 + 5)]
    rows = one.encode(texts)
    one.close()
    assert sorted(len(body["input"]) for _, _, body in server.asked) == [5, AT_ONCE, AT_ONCE, AT_ONCE]
    exact = np.array([vector(text) for text in texts], np.float32)
    assert np.allclose(rows, exact / np.linalg.norm(exact, axis=1, keepdims=True), atol=1e-6)


def test_a_huge_text_is_truncated_before_it_is_sent(server):
    embedder = remote(server)
    embedder.encode(["a" * 1_000_000, ""])
    embedder.close()
    assert [len(text) for text in server.asked[0][2]["input"]] == [24_000, 1]


def test_the_length_of_vectors_is_asked_for_once(server):
    one = remote(server)
    assert (one.dimensions, one.dimensions) == (3, 3)
    assert one.encode([]).shape == (0, 3)
    one.close()
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again_when_it_says_so(server):
    server.replies = [(429, {"retry-after": "7"}, b"slow down"), (503, {}, b"")]
    pauses = []
    one = remote(server, pauses)
    assert one.encode(["a"]).shape == (1, 3)
    one.close()
    assert pauses == [7, 1.0]


def test_retries_end_if_the_server_stays_busy(server):
    server.replies = [(503, {}, b"later")] * 3
    one = remote(server, retries=2)
    with pytest.raises(EnrichmentError, match="answered 503: later"):
        one.encode(["a"])
    one.close()
    assert len(server.asked) == 3


def test_a_refusal_says_what_to_do_and_shows_no_key(server):
    server.replies = [(401, {}, f"bad key {SECRET}".encode())]
    one = remote(server, api_key=SECRET)
    with pytest.raises(EnrichmentError, match=r"answered 401: bad key \*\*\*; give model an api_key") as caught:
        one.encode(["a"])
    one.close()
    assert SECRET not in repr(one) + str(caught.value) + one.version + one.name


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"no json", "holds no embeddings"),
        ({"data": "x"}, "holds no embeddings"),
        ({"data": []}, "was given 1 texts and answered with 0 vectors"),
        ({"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}, "was given 1 texts and answered with 2 vectors"),
        ({"data": [{"index": 1, "embedding": [1.0]}]}, "`index` does not say which text they are of: they are 1;"),
        ({"data": [{"index": 0, "embedding": []}]}, r"vectors of these lengths: \[0\]"),
    ],
)
def test_an_invalid_answer_is_an_error(server, body, said):
    server.replies = [(200, {}, body)]
    one = remote(server)
    with pytest.raises(EnrichmentError, match=said):
        one.encode(["a"])
    one.close()


def test_a_server_that_is_not_there_is_an_error_after_the_tries():
    pauses = []
    one = RemoteEmbedder(
        {"type": "openai", "model_id_or_path": "m", "base_url": "http://127.0.0.1:9", "retries": 1}, sleep=pauses.append
    )
    with pytest.raises(EnrichmentError, match="the embedding model m: "):
        one.encode(["a"])
    one.close()
    assert len(pauses) == 1


def test_another_server_or_other_options_are_another_version(server):
    one = remote(server)
    other = RemoteEmbedder({"type": "openai", "model_id_or_path": "embed-1", "base_url": "http://127.0.0.1:9"})
    smaller = remote(server, extra={"dimensions": 2})
    keyed = remote(server, api_key=SECRET)
    assert len({one.version, other.version, smaller.version}) == 3
    assert keyed.version == one.version
    for embedder in (one, other, smaller, keyed):
        embedder.close()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "anthropic", "model_id_or_path": "m"}, "model.type: must be 'openai'"),
        ({"model_id_or_path": "m"}, "model.type: must be 'openai'"),
        ({"type": "openai", "model_id_or_path": "m", "temperature": 1}, "model: unknown key 'temperature'"),
        ({"type": "openai"}, "model: needs 'model_id_or_path'"),
    ],
)
def test_a_wrong_block_is_an_error_that_names_the_key(block, said):
    with pytest.raises(ConfigError, match=said):
        resolve_embedder(block)


def test_vectors_without_an_index_are_taken_in_the_order_in_which_they_come(server):
    server.replies = [(200, {}, {"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0], "index": None}]})]
    one = remote(server)
    rows = one.encode(["a", "b"])
    one.close()
    assert rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("places", "said"),
    [((0, None), "some have none"), ((0, 0), "they are 0, 0;"), ((1, 2), "they are 1, 2;"), ((None, 1), "some have")],
)
def test_an_index_that_is_wrong_or_given_for_some_is_refused_with_what_is_wrong(server, places, said):
    items = [{"embedding": [1.0], **({} if place is None else {"index": place})} for place in places]
    server.replies = [(200, {}, {"data": items})]
    one = remote(server)
    with pytest.raises(EnrichmentError, match=f"does not say which text they are of: {said}"):
        one.encode(["a", "b"])
    one.close()


def test_vectors_of_different_lengths_in_one_answer_are_an_error(server):
    server.replies = [(200, {}, {"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]})]
    one = remote(server)
    with pytest.raises(EnrichmentError, match=r"vectors of these lengths: \[1, 2\]"):
        one.encode(["a", "b"])
    one.close()


def test_cached_vectors_are_used_while_the_server_is_down(server, tmp_path):
    tools = [Tool("a", "n"), Tool("b", "n")]
    one = remote(server)
    first = ToolRegistry(tools, enrichments=[EmbeddingsEnrichment(one, cache=tmp_path)]).artifacts["embeddings"]
    one.close()
    server.replies = [(400, {}, b"away")] * 9
    server.asked.clear()
    again = remote(server)
    second = ToolRegistry(tools, enrichments=[EmbeddingsEnrichment(again, cache=tmp_path)]).artifacts["embeddings"]
    again.close()
    assert np.array_equal(first.matrix, second.matrix)
    assert server.asked == []
