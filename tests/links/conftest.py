"""Shared by the tests of `GuardedClient`: a server, and requests by both the sync and the async way."""

import asyncio
import ssl
import subprocess
import time

import pytest

from conftest import chosen_way, ways_to_try
from links.fake_server import FakeServer, respond
from toolyard.links.http.addresses import AddressRule
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import Outgoing

LOCAL = AddressRule.of(["127.0.0.1", "localhost"])


@pytest.fixture
def server():
    with FakeServer() as fake:
        fake.otherwise = lambda request: respond(200, {"path": request.path})
        yield fake


@pytest.fixture(params=ways_to_try("sync", "async"))
def ask(request):
    """Send a request by one of the two ways, which must behave alike. Closes the client, so that leaks show."""

    def sync(client, *requests):
        with client:
            answers = [client.send(item) for item in requests]
        return answers[0] if len(answers) == 1 else answers

    def on_a_loop(client, *requests):
        async def main():
            async with client:
                return [await client.asend(item) for item in requests]

        answers = asyncio.run(main())
        return answers[0] if len(answers) == 1 else answers

    return sync if chosen_way(request) == "sync" else on_a_loop


def local(**options):
    return GuardedClient(LOCAL, **options)


def get(url, seconds=None, **options):
    deadline = None if seconds is None else time.monotonic() + seconds
    return Outgoing(method="GET", url=url, deadline=deadline, **options)


def post(url, seconds=None, body=b"{}", **options):
    deadline = None if seconds is None else time.monotonic() + seconds
    return Outgoing(method="POST", url=url, body=body, deadline=deadline, **options)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1 and localhost: key and certificate."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*make, *subject, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return key, cert


@pytest.fixture
def tls_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    with FakeServer(context) as fake:
        fake.otherwise = lambda request: respond(200, {})
        yield fake
