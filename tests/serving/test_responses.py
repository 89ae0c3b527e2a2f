"""What every answer says about itself to whatever stands between server and caller."""

import pytest

from serving.service_support import CORE, served


@pytest.fixture(scope="module")
def yard():
    with served(CORE, page=True, metrics=True, allowed_origins=("https://friend.example",)) as server:
        yield server


def test_no_answer_of_the_api_may_be_stored_or_guessed_at(yard):
    session = yard.post("/v1/sessions", {"session_id": "s"})
    answers = [
        session,
        yard.get("/v1/version"),
        yard.get("/v1/health"),
        yard.get("/metrics"),
        yard.get("/v1/sessions/s/state"),
        yard.get("/v1/tools?limit=1"),
        yard.invoke("echo", {"text": "<script>"}),
        yard.invoke("echo", {"text": 5}),
        yard.arp("one", "echo", {"text": "x"}),
        yard.ask("HEAD", "/v1/version"),
        yard.get("/nowhere"),
        yard.ask("DELETE", "/v1/sessions/s"),
        yard.post("/v1/calls", b"{", headers={"content-type": "application/json"}),
        yard.post("/v1/calls", b"{}", headers={"content-type": "text/plain"}),
        yard.post("/v1/calls", {"calls": []}, headers={"idempotency-key": "k"}),
        yard.raw(b"nonsense\r\n\r\n"),
        yard.raw(b"GET /v1/version HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"),
    ]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff", answer
        assert answer.headers["cache-control"] == "no-store", answer


@pytest.mark.parametrize("path", ["/v1/tools", "/arp/v1/tools"])
def test_the_catalog_may_be_kept_by_its_caller_alone_and_must_be_asked_for_again(yard, path):
    whole = yard.get(path)
    same = yard.get(path, headers={"if-none-match": whole.headers["etag"]})
    assert (whole.status, same.status) == (200, 304)
    for answer in (whole, same):
        assert answer.headers["cache-control"] == "private, no-cache"
        assert answer.headers["vary"] == "authorization, x-api-key"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_each_header_is_there_once(yard):
    friend = {"origin": "https://friend.example"}
    for path, headers in (
        ("/console/tools", {}),
        ("/console/static/console.css", {}),
        ("/v1/version", {}),
        ("/v1/version", friend),
    ):
        names = [name.lower() for name, _ in listed(yard, path, headers)]
        assert names.count("cache-control") == names.count("x-content-type-options") == 1, (path, names)
    kept = dict(listed(yard, "/console/static/console.css", {}))
    assert kept["cache-control"] == "private, max-age=86400"


def test_a_catalog_for_a_foreign_page_varies_with_both(yard):
    found = listed(yard, "/v1/tools", {"origin": "https://friend.example"})
    assert {value for name, value in found if name == "vary"} == {"authorization, x-api-key", "origin"}


def listed(yard, path, headers):
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", yard.port, timeout=10)
    line.request("GET", path, headers=headers)
    answer = line.getresponse()
    answer.read()
    line.close()
    return answer.getheaders()
