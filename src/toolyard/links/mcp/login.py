"""`Login`: how a person is sent to log in somewhere, and how the answer comes back."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from toolyard.model.errors import CallTimeout, Denied, Unavailable

_LONGEST = 16 * 1024
_PAGE = b"<!doctype html><title>toolyard</title><p>%s You can close this page."
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class LoginAnswer(msgspec.Struct, frozen=True):
    """What the authorization server sends back with the person."""

    code: str
    state: str | None = None
    issuer: str | None = None

    def __repr__(self) -> str:
        return "<LoginAnswer>"


class Login(Protocol):
    """What `use_login` takes."""

    async def log_in(self, url: str, redirect: str, seconds: float) -> LoginAnswer:
        """Send a person to the first address, and give what comes back to the second."""


class LoopbackLogin:
    """Prints the address, opens a browser where there is a desktop, and waits for it on a port of this machine."""

    async def show(self, url: str) -> None:
        """Say where to log in."""
        sys.stderr.write(f"toolyard: to go on, log in at\n  {url}\n")
        sys.stderr.flush()
        if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            import webbrowser

            await asyncio.to_thread(webbrowser.open, url)

    async def log_in(self, url: str, redirect: str, seconds: float) -> LoginAnswer:
        """What the first request for the redirect address brings; others are turned away."""
        parts = urlsplit(redirect)
        if parts.hostname not in _LOOPBACK or parts.scheme != "http":
            raise Denied(f"{redirect} is no address on this machine; set redirect_uri to one, or use another login")
        answer: asyncio.Future[LoginAnswer] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _serve(reader, writer, parts.path or "/", answer)

        host = "127.0.0.1" if parts.hostname == "localhost" else str(parts.hostname)
        try:
            server = await asyncio.start_server(serve, host, parts.port or 80, limit=_LONGEST)
        except OSError as error:
            raise Unavailable(f"cannot wait for the login at {redirect}: {error.strerror}") from None
        try:
            async with asyncio.timeout(seconds):
                await self.show(url)
                return await answer
        except TimeoutError:
            raise CallTimeout(f"nobody logged in within {seconds:.0f} s", effect="none") from None
        finally:
            server.close()


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, answer: asyncio.Future[LoginAnswer]
) -> None:
    try:
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        writer.close()
        return
    target = head.split(b" ", 2)[1].decode("latin-1") if head.startswith(b"GET ") else ""
    asked = urlsplit(target)
    fields = {name: values[0] for name, values in parse_qs(asked.query).items()}
    if asked.path != path or not fields.keys() & {"code", "error"} or answer.done():
        status, text = b"404 Not Found", b"There is nothing here."
    elif "code" in fields:
        status, text = b"200 OK", b"You are logged in."
        answer.set_result(LoginAnswer(fields["code"], fields.get("state"), fields.get("iss")))
    else:
        status, text = b"200 OK", b"You are not logged in."
        answer.set_exception(Denied(f"the login was refused: {fields['error'][:100]!r}"))
    page = _PAGE % text
    head = b"HTTP/1.1 %s\r\ncontent-type: text/html\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    writer.write(head % (status, len(page)) + page)
    writer.close()


_LOGIN: list[Login] = [LoopbackLogin()]


def use_login(login: Login) -> Login:
    """Have people log in another way from now on; gives the way before."""
    before, _LOGIN[0] = _LOGIN[0], login
    return before


def current_login() -> Login:
    """The way there is now."""
    return _LOGIN[0]
