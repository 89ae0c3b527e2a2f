"""Cursors that no client can make up, and the digests that seal them."""

import base64
import hashlib
import json

import msgspec
import pytest
from hypothesis import given

from serving.test_request_body import JSON
from toolyard.serving.cursors import DIGEST_BYTES, Position, digest_json, read_cursor, write_cursor


@pytest.mark.parametrize("place", [b"[1]", b"[1,2,3]", b'["a","b"]', b"[9223372036854775808,1]", b"[-1,5]", b"xx", b""])
def test_a_cursor_that_is_sealed_and_holds_something_else_was_made_up(place):
    digest = digest_json("list")
    seal = hashlib.blake2b(place, key=digest, digest_size=DIGEST_BYTES).digest()
    forged = base64.urlsafe_b64encode(place + seal).decode().rstrip("=")
    assert read_cursor(digest, forged, tuple[Position, Position]) is None
    assert read_cursor(digest, write_cursor(digest, 7, 5), tuple[Position, Position]) == (7, 5)
    assert read_cursor(digest_json("other"), write_cursor(digest, 7, 5), tuple[Position, Position]) is None


@given(JSON, JSON)
def test_digests_are_equal_for_equal_json_only(one, two):
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (digest_json(one) == digest_json(two)) is same


def test_the_order_of_keys_does_not_change_a_digest():
    one, two = b'{"a": {"x": 1, "y": 2}, "b": 1}', b'{"b": 1, "a": {"y": 2, "x": 1}}'
    assert digest_json(msgspec.json.decode(one)) == digest_json(msgspec.json.decode(two))
    assert digest_json(1) != digest_json(1.0) and digest_json(1) != digest_json(True)
