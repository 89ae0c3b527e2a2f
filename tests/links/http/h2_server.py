"""A real HTTP/2 server on loopback with behaviour defined by the test."""

import contextlib
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from waiting import SOON


class H2Server:
    """`act(server, connection, stream)` answers each request; `requests` holds (connection number, headers, body)."""

    def __init__(self, certificate, act):
        key, cert = certificate
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._context.set_alpn_protocols(["h2", "http/1.1"])
        self.act = act
        self.requests = []
        self.connections = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(SOON)

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain):
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection:
                self.connections.append(connection)
                number = len(self.connections)
                state = h2.connection.H2Connection(
                    h2.config.H2Configuration(client_side=False, validate_outbound_headers=False)
                )
                state.initiate_connection()
                connection.sendall(state.data_to_send())
                bodies, heads = {}, {}
                while data := connection.recv(65536):
                    for event in state.receive_data(data):
                        if isinstance(event, h2.events.RequestReceived):
                            heads[event.stream_id], bodies[event.stream_id] = dict(event.headers), b""
                        elif isinstance(event, h2.events.DataReceived):
                            bodies[event.stream_id] += event.data
                            state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        elif isinstance(event, h2.events.StreamEnded):
                            self.requests.append((number, heads[event.stream_id], bodies[event.stream_id]))
                            if self.act(connection, state, event.stream_id) is False:
                                return
                    connection.sendall(state.data_to_send())
        except (OSError, ValueError, h2.exceptions.ProtocolError):
            return


def whole(status, body=b"", *headers):
    def act(connection, state, stream):
        state.send_headers(stream, [(":status", str(status)), ("content-length", str(len(body))), *headers])
        state.send_data(stream, body, end_stream=True)

    return act
