"""A real server on loopback with behaviour defined by the test, for faults that correct servers do not show."""

import contextlib
import json
import socket
import ssl
import threading
from urllib.parse import parse_qsl, unquote, urlsplit

from waiting import SOON


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        parts = urlsplit(target)
        self.path, self.query = parts.path, dict(parse_qsl(parts.query))
        self.segments = [unquote(segment) for segment in parts.path.split("/")[1:]]

    @property
    def json(self):
        return json.loads(self.body)


def respond(status, body=b"", *headers, kind="application/json"):
    """A well-formed response."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}", *headers]
    return lambda connection, request: connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def send_raw(data):
    """Send these bytes and close the connection."""

    def act(connection, request):
        connection.sendall(data)
        return False

    return act


def hang_up(connection, request):
    """Close the connection without a response."""
    return False


def respond_error(status, code, *headers, message="no", **error):
    """An error response in toolyard's envelope."""
    return respond(status, {"error": {"code": code, "message": message, **error}}, *headers)


class FakeServer:
    """Answers requests by `acts`: for each (method, path) a list of acts, one per request.

    An act gets the connection and the request, and returns False to close the connection. `otherwise` is the default.
    """

    def __init__(self, context=None):
        self.requests = []
        self.acts = {}
        self.otherwise = lambda request: respond(404, {"error": {"code": "route.not_found", "message": "nothing"}})
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.connections = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stop_listening(self):
        """Refuse new connections; open ones stay."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def close(self):
        self.stop_listening()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(SOON)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def asked(self, method, path):
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        self.connections.append(connection)
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self.connections.append(connection)
            stream = connection.makefile("rb")
            with connection, stream:
                while (request := _read(stream)) is not None:
                    self.requests.append(request)
                    acts = self.acts.get((request.method, request.path))
                    act = acts.pop(0) if acts else self.otherwise(request)
                    if act(connection, request) is False:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
        except (OSError, ssl.SSLError, ValueError):
            return


def _read(stream):
    line = stream.readline().decode("latin-1").split(" ")
    if len(line) != 3:
        return None
    headers = {}
    while (header := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(line[0], line[1], headers, body)
