"""Signing in to the pages of the real service: what the browser keeps, for how long, and what ends it."""

import re
from urllib.parse import urlencode

import pytest

from serving.service_support import CORE, served

FORM = "application/x-www-form-urlencoded"


def config(path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(path)}}


@pytest.fixture
def there(tmp_path):
    with served(config(tmp_path / "yard.db"), page=True) as one:
        one.token = None
        yield one


def post(one, path, fields, cookie=None):
    headers = {"origin": one.url, "content-type": FORM}
    fields = {**fields, "form_token": one.service.keys.sign_ins().mark_form((cookie or "=").partition("=")[2])}
    return one.ask("POST", path, urlencode(fields).encode(), headers={**headers, "cookie": cookie})


def sign_in(one, token):
    """The cookie, as a browser would send it back."""
    answer = post(one, "/console/sign-in", {"key": token})
    assert answer.status == 303, answer
    return answer.headers["set-cookie"].partition(";")[0]


def status(one, cookie, path="/console/tools"):
    return one.get(path, headers={"cookie": cookie}).status


def test_the_cookie_is_not_the_key_and_opens_the_pages_alone(there):
    token = there.key("*:*")
    cookie = sign_in(there, token)
    # The secret is what the token ends with; it may have underscores of its own.
    assert token not in cookie and token[-30:] not in cookie
    assert re.fullmatch(r"toolyard_\d+=[A-Za-z0-9]{12}\.\d+\.[A-Za-z0-9_-]{43}", cookie)
    assert status(there, cookie) == 200
    assert status(there, cookie, "/console/tools/core::echo") == 200
    assert status(there, cookie, "/v1/tools") == 401
    value = cookie.partition("=")[2]
    assert there.get("/v1/tools", token=value).status == 401
    assert status(there, f"{cookie.partition('=')[0]}={token}") == 303, "a key is no cookie"


def test_revoking_the_key_ends_the_sign_in_at_once(there):
    token, other = there.key("*:*"), there.key("*:*")
    cookie, untouched = sign_in(there, token), sign_in(there, other)
    assert status(there, cookie) == 200
    there.service.keys.revoke(token[3:15])
    assert status(there, cookie) == 303 and status(there, untouched) == 200


def test_signing_out_expires_the_cookie(there):
    cookie = sign_in(there, there.key("*:*"))
    answer = post(there, "/console/sign-out", {}, cookie)
    name = cookie.partition("=")[0]
    assert answer.headers["set-cookie"] == f"{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
    assert status(there, f"{name}=") == 303


def test_a_manipulated_cookie_is_not_accepted(there):
    weak, strong = there.key("nothing:list"), there.key("*:*")
    name, _, value = sign_in(there, weak).partition("=")
    key_id, expires, mark = value.split(".")
    forged = [
        f"{strong[3:15]}.{expires}.{mark}",
        f"{key_id}.{int(expires) + 1}.{mark}",
        f"{key_id}.{expires}.{mark.swapcase()}",
        f"{key_id}.{expires}.",
        f"{key_id}.{expires}",
        "..",
        "",
        "é",
    ]
    assert [status(there, f"{name}={other}".encode("latin-1")) for other in forged] == [303] * len(forged)


def test_another_process_with_the_same_store_takes_the_cookie(tmp_path):
    with (
        served(config(tmp_path / "yard.db"), page=True) as one,
        served(config(tmp_path / "yard.db"), page=True) as two,
    ):
        cookie = sign_in(one, one.key("*:*"))
        two.service.keys.load()
        assert status(two, cookie) == 200
        one.service.keys.revoke(cookie.partition("=")[2][:12])
        two.service.keys.load()
        assert status(two, cookie) == 303
    with (
        served(config(tmp_path / "yard.db"), page=True) as later,
        served(config(tmp_path / "b.db"), page=True) as else_,
    ):
        cookie = sign_in(later, later.key("*:*"))
        else_.key("*:*")
        assert status(else_, cookie) == 303, "another store has another secret"


def test_under_tls_the_cookie_cannot_be_set_by_anybody_else():
    from toolyard.serving.console.routes import BrowserSignIn

    cookie = BrowserSignIn(None, 443)
    scope = {"type": "http", "scheme": "https", "headers": [(b"cookie", b"toolyard_443=a; __Host-toolyard_443=b")]}
    assert cookie.write_cookie(scope, "x")[1] == b"__Host-toolyard_443=x; Path=/; HttpOnly; SameSite=Strict; Secure"
    assert cookie.read_cookie(scope) == "b"
    assert cookie.read_cookie({**scope, "headers": [(b"cookie", b"toolyard_443=a")]}) is None


def test_the_form_to_sign_in_is_small(there):
    there.key("*:*")
    assert post(there, "/console/sign-in", {"key": "ty_" + "a" * 5000}).status == 413
    assert post(there, "/console/sign-in", {"key": "ty_" + "a" * 3000}).status == 401
    head = f"POST /console/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: {FORM}\r\n"
    chunk = b"400\r\n" + b"a" * 1024 + b"\r\n"
    answer = there.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 5)
    assert answer.status == 413, "though it never came to an end"
