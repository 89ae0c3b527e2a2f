"""A proxy that cuts connections after a given number of bytes of the request or the response."""

import contextlib
import socket
import threading

from waiting import SOON


class CuttingProxy:
    """Forwards bytes to `target`; `cuts` has one ("up" or "down", bytes) for each new connection to cut."""

    def __init__(self, target):
        self._target = target
        self.cuts = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._sockets = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            way, left = self.cuts.pop(0) if self.cuts else (None, 0)
            for name, source, sink in (("up", near, far), ("down", far, near)):
                limit = left if name == way else None
                threading.Thread(target=_pass_on, args=(source, sink, limit), daemon=True).start()

    def drop_all(self):
        """Cut all open connections, so that the next request needs a new one."""
        for each in self._sockets:
            _cut(each)
        self._sockets.clear()

    def close(self):
        _cut(self._listening)
        self.drop_all()
        self._thread.join(SOON)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _pass_on(source, sink, limit):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if limit is not None:
                data = data[:limit]
                limit -= len(data)
            sink.sendall(data)
            if limit == 0:
                break
    for end in (source, sink):
        _cut(end)


def _cut(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
