"""A real server that speaks `/embeddings`, on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def vector(text):
    return [float(len(text)), 1.0, 2.0]


class EmbeddingServer:
    """Answers with `replies` first, each (status, headers, body), and then with what `model` makes of a text."""

    def __init__(self, model=vector):
        self.asked, self.replies, self.model, self._lock = [], [], model, threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer._lock:
                    outer.asked.append((self.path, dict(self.headers.items()), body))
                    status, headers, data = outer.replies.pop(0) if outer.replies else (200, {}, None)
                if data is None:
                    rows = [{"index": at, "embedding": outer.model(text)} for at, text in enumerate(body["input"])]
                    data = {"object": "list", "data": rows[::-1], "model": body["model"]}
                told = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.block = {"type": "openai", "model_id_or_path": "embed-1", "base_url": self.url}
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def texts(self):
        """All that it was asked for, in order."""
        return [text for _, _, body in self.asked for text in body["input"]]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
