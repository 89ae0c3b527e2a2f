"""How many values a body holds, known while it comes in."""

import json

import pytest
from hypothesis import given, strategies as st
from service_support import served

from toolyard.serving.counting import Values
from toolyard.serving.faults import HttpFault

TEXT = st.text(st.sampled_from('ab",[]{}:\\ \n'), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


def values_in(value):
    inside = value if type(value) is list else value.values() if type(value) is dict else ()
    return 1 + sum(map(values_in, inside))


def counted(text, size):
    values = Values(10**9)
    for start in range(0, len(text), size):
        values.feed(text[start : start + size])
    return values.count


@given(JSON, st.integers(1, 9), st.sampled_from([None, 0, 2]))
def test_the_count_is_exact_however_the_text_is_written_and_cut(value, size, indent):
    text = json.dumps(value, indent=indent).encode()
    assert counted(text, size) == counted(text, 10**9) == values_in(value)


def test_one_value_too_many_is_a_413_as_soon_as_it_has_come():
    values = Values(100)
    values.feed(b"[" + b"1," * 98)
    with pytest.raises(HttpFault) as caught:
        values.feed(b"1,1")
    assert (caught.value.status, caught.value.code) == (413, "request.too_large")
    assert caught.value.details == {"max_values": 100}


def test_a_body_of_too_many_values_is_refused_before_all_of_it_is_there():
    with served(max_values=1000) as yard:
        head = b"POST /v1/tools/echo:invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begun = b'{"args": {"text": [' + b"1," * 100_000
        answer = yard.raw(head + b"Content-Length: %d\r\n\r\n" % (len(begun) + 1_000_000) + begun)
        assert (answer.status, answer.error["code"]) == (413, "request.too_large")
        assert answer.error["details"] == {"max_values": 1000}


def test_commas_and_brackets_in_a_text_are_no_values():
    with served(max_values=1000) as yard:
        text = ',[{"\\' * 20_000
        answer = yard.invoke("echo", {"text": text})
        assert answer.status == 200 and text in answer.json["result"].values()
