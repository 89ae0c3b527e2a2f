"""Servers and specifications that mean no good: what they answer, and how they spell where they want calls to go."""

import contextlib
import functools
import json
import time
import zlib

from links.fake_server import FakeServer, respond, send_raw

MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class HostileServer(FakeServer):
    """Answers every request with `act`; keeps what it was asked."""

    def __init__(self, act=None):
        super().__init__()
        self.otherwise = lambda request: act or respond(200, {"seen": request.target})

    @property
    def targets(self):
        return [request.target for request in self.requests]


def endlessly(head, piece, pause=0.0):
    """The head at once, then piece after piece, for as long as somebody listens."""

    def act(connection, request):
        with contextlib.suppress(OSError):
            connection.sendall(head)
            while True:
                connection.sendall(piece)
                time.sleep(pause)
        return False

    return act


@functools.cache
def bomb(encoding, mebibytes=64):
    """A few dozen kilobytes that unpack to as many megabytes of JSON."""
    maker = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    data = maker.compress(b'"') + b"".join(maker.compress(b" " * MIB) for _ in range(mebibytes)) + maker.flush()
    return respond(200, data, f"Content-Encoding: {encoding}")


@functools.cache
def nested_bomb():
    return respond(200, zlib.compress(zlib.compress(bytes(64 * MIB))), "Content-Encoding: deflate, deflate")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


DRIPS = {
    "nothing at all": endlessly(b"", b"", 0.1),
    "its status line": endlessly(b"", b"H", 0.02),
    "headers": endlessly(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", 0.02),
    "hints": endlessly(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.02),
    "a body of known length": endlessly(OK + b"Content-Length: 99999\r\n\r\n", b" ", 0.02),
    "a body in chunks": endlessly(CHUNKED, chunk(b" "), 0.02),
    "a body without end": endlessly(OK + b"\r\n", b" ", 0.02),
    "trailers": endlessly(CHUNKED + chunk(b"{}") + b"0\r\n", b"a: b\r\n", 0.02),
}
TOO_MUCH = {
    "an endless body": endlessly(OK + b"\r\n", b" " * 65536),
    "endless chunks": endlessly(CHUNKED, chunk(b" " * 65536)),
    "endless tiny chunks": endlessly(CHUNKED, chunk(b" ") * 10_000),
    "an endless number": endlessly(OK + b"\r\n", b"1" * 65536),
    "endless nesting": endlessly(OK + b"\r\n", b"[" * 65536),
    "endless headers": endlessly(b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 4096 + b"\r\n"),
    "a length beyond all": send_raw(OK + b"Content-Length: 999999999999999999\r\n\r\n{}"),
}
BOMBS = {
    "a gzip bomb": lambda: bomb("gzip"),
    "a deflate bomb": lambda: bomb("deflate"),
    "a bomb in a bomb": nested_bomb,
}
"""Packed when they are asked for: that takes longer than most tests."""


def too_much(name):
    """The answer of that name, from either."""
    return BOMBS[name]() if name in BOMBS else TOO_MUCH[name]


NOT_JSON = {
    "cut short": b'{"pets": [1, 2',
    "cut within a text": b'"half of',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "NaN": b'{"price": NaN}',
    "Infinity": b"[-Infinity]",
    "a number too large for any float": b"1e999999",
    "a page": b"<!doctype html><title>Sign in</title>",
    "nothing but space": b"  \n ",
    "two documents": b"{} {}",
    "bytes that are no text": b'"\xff\xfe\xfa"',
    "half of a pair": rb'"\ud800"',
    "single quotes": b"{'a': 1}",
    "a comment": b"{} // fine",
}
ODD_CHARSETS = (
    "zlib",
    "hex",
    "rot13",
    "base64",
    "bz2",
    "idna",
    "punycode",
    "undefined",
    "utf-7",
    "no-such",
    "utf-16",
    '"',
)

METADATA = (
    *("169.254.169.254", "169.254.169.254.", "2852039166", "0xA9FEA9FE", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376"),
    *("169.254.43518", "169.16689662", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]"),
    *("[2002:a9fe:a9fe::]", "[::169.254.169.254]", "[fd00:ec2::254]", "[fe80::a9fe:a9fe]", "[fe80::1%25eth0]"),
    *("１６９.254.169.254", "169。254。169。254", "user@169.254.169.254", "100.100.100.200", "168.63.129.16"),
)
"""Where clouds keep the machine's own credentials, in spellings that some reader or network takes for it."""
LOOPBACK = (
    *(
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7F.0.0.1",
    ),
    *(
        "0177.0.0.1",
        "017700000001",
        "0",
        "0.0.0.0",
        "00.0.0.0",
        "localhost",
        "localhost.",
        "LocalHost",
    ),
    *(
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[2002:7f00:1::]",
    ),
    *("[64:ff9b::7f00:1]", "[::1%25lo]", "①②⑦.⓪.⓪.①", "127.0.0.1%00.example.com", "example.com@127.0.0.1"),
    *(
        "127.0.0.1\\@example.com",
        "127.0.0.1%2f.example.com",
        "lo\u200bcalhost",
        "ｌocalhost",
        "127.0.0.1:{port}@127.0.0.1",
    ),
)
"""This machine, in as many; `{port}` is that of a server which must not be asked."""

PATH_VALUES = (
    *(
        "",
        ".",
        "..",
        "...",
        "../",
        "../admin",
        "..\\admin",
        "a/../../admin",
        "/",
        "//evil.example/x",
        "\\\\evil.example",
    ),
    *("%2e", "%2e%2e", "%2E%2E/", "..%2fadmin", "..%5cadmin", "%252e%252e", "%2", "%", "%00", "\x00", "a\x00b"),
    *("..;/", ";a=b", ".;", "?admin=1", "a?b", "#x", "a#b", "&", "=", "a b", " ", "+", ":", ":80", "@evil.example"),
    *("http://evil.example/", "a@b:c", "\r\nX-Evil: 1", "a\r\n\r\nGET /admin HTTP/1.1", "\n", "\t", "\x7f", "\u2028"),
    *(
        "．．",
        "。。",
        "‥",
        "é",
        "e\u0301",
        "\u202eevil",
        "{id}",
        "{",
        "}",
        "*",
        "~",
        "'",
        '"',
        "<",
        "|",
        "^",
        "`",
        "[::1]",
    ),
    *("𝟙", "\ufeff", "\u00ad..", "..\u200b", "a" * 5000, "../" * 200),
)

HOSTILE_PATHS = (
    *(
        "//evil.example/{id}",
        "///evil.example/{id}",
        "/\\evil.example/{id}",
        "\\\\evil.example/{id}",
        "@evil.example/{id}",
    ),
    *(
        ":80@evil.example/{id}",
        ".evil.example/{id}",
        "http://evil.example/{id}",
        "/../admin/{id}",
        "/%2e%2e/admin/{id}",
    ),
    *(
        "/a/..;/admin/{id}",
        "/a/./{id}",
        "/a#/{id}",
        "/a?b={id}",
        "/a\r\nX-Evil: 1/{id}",
        "/a b/{id}",
        "/é/{id}",
        "/%/{id}",
    ),
    *("/a%00/{id}", "/..%2f/{id}", "/{id}/..", "/{id}\\..\\admin", "/a\x00/{id}", "/{id}{id}", "/x{id}y"),
)
"""As templates of a specification whose base the operator has given."""


def specification(paths, **more):
    return {"openapi": "3.1.0", "info": {"title": "hostile", "version": "1"}, "paths": paths, **more}


def operation(name, parameters=(), **more):
    return {"operationId": name, "parameters": list(parameters), "responses": {"200": {"description": "x"}}, **more}


def parameter(name, location="path", schema=None, **more):
    required = {"required": True} if location == "path" else {}
    return {"name": name, "in": location, "schema": schema or {"type": "string"}, **required, **more}


def pets(template="/pets/{id}/toys", **options):
    return specification({template: {"get": operation("get", [parameter("id", **options)])}})


def written(folder, document, name="spec.json"):
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def one(items):
    assert len(items) == 1, items
    return items[0]


def clear(result, *codes):
    """The facts of an error in words of ours: a known code, a text for people, and no exception of a library in it."""
    assert result.is_error, result
    info = result.error_info
    assert info.code in codes, info
    assert 10 < len(info.message) < 2000, info
    for word in (
        "Traceback",
        "Errno",
        "httpcore",
        "httpx",
        "JSONDecodeError",
        "RecursionError",
        "UnicodeError",
        "codec",
    ):
        assert word not in info.message, info
    return info
