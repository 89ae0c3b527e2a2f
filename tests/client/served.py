"""A yard served by the real application on a real socket."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import uvicorn
from serving.quick_server import QuickServer
from waiting import SOON, until

from toolyard import PythonToolEngine, Toolyard
from toolyard.app.blocks import ServerBlock
from toolyard.serving.app import create_app
from toolyard.serving.service import Service


@contextmanager
def served(registry, *, engine=None, **options):
    """The service of a registry, with its address as `.url`."""
    engine = PythonToolEngine(registry) if engine is None else engine
    block = ServerBlock(**{"log": "off", "metrics": False, "page": False, **options})
    service = Service(Toolyard(registry, engine), block)
    listening = socket.create_server(("127.0.0.1", 0))
    # Inherited by connections. Without it, head and body of a response arrive 40 ms apart.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = QuickServer(
        uvicorn.Config(create_app(service), log_config=None, lifespan="on", timeout_graceful_shutdown=SOON)
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        object.__setattr__(service, "url", f"http://127.0.0.1:{listening.getsockname()[1]}")
        yield service
    finally:
        server.should_exit = True
        thread.join(SOON)
        listening.close()
        engine.close()
