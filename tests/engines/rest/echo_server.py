"""A real server on loopback that remembers what it received, read by werkzeug and urllib, and answers as told."""

import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from werkzeug.formparser import parse_form_data
from werkzeug.http import parse_cookie


class Received:
    """One request, taken apart by libraries that are not ours."""

    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.raw_path, _, self.raw_query = target.partition("?")

    def form(self):
        environ = {
            "REQUEST_METHOD": self.method,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(self.body)),
            "wsgi.input": io.BytesIO(self.body),
        }
        _, form, files = parse_form_data(environ, stream_factory=lambda **_: io.BytesIO())
        return form, files

    def cookies(self):
        return parse_cookie(self.headers.get("cookie"))


class EchoServer:
    """`answer(received)` gives status, content type and body, and perhaps headers; by default an empty 204."""

    def __init__(self):
        self.received = []
        self.answer = lambda received: (204, "", b"")
        echo = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def handle_any(self):
                length = int(self.headers.get("content-length") or 0)
                received = Received(self.command, self.path, self.headers, self.rfile.read(length))
                echo.received.append(received)
                status, kind, body, *headers = echo.answer(received)
                self.send_response(status)
                if kind:
                    self.send_header("Content-Type", kind)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)
                self.wfile.flush()

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, *arguments):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def named(self):
        return (f"127.0.0.1:{self.port}",)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
