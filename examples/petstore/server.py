"""A petstore that really keeps pets: `python examples/petstore/server.py --port 0`, with the standard library alone.

Once it listens it prints one line of JSON, `{"url": ..., "key": ...}`; `petstore.yaml` beside it describes it. Anybody
may look; changing something needs the key, which comes from PETSTORE_KEY and is made up where that is not set.
"""

import argparse
import hashlib
import hmac
import json
import os
import secrets
import signal
import sys
import threading
from email.message import Message
from email.parser import BytesHeaderParser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

MAX_BODY = 1 << 20
MOST_PETS = 100
STATUSES = ("available", "reserved", "sold")
FIRST_PETS = ({"name": "Rex", "tags": ["dog"]}, {"name": "Mia", "tags": ["cat", "shy"], "status": "reserved"})


class Refused(Exception):
    """Refuses a request with a status and a reason."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Pets:
    """All pets, in memory. Methods return copies, so that no thread sees another's partial change."""

    def __init__(self, first=FIRST_PETS):
        self._lock = threading.Lock()
        self._pets = {}
        self._images = {}
        self._last = 0
        for pet in first:
            self.create(pet)

    def create(self, fields):
        """Store a new pet under a new id."""
        if "name" not in fields:
            raise Refused(422, "name: a pet needs one")
        pet = {"name": "", "status": "available", "tags": [], **checked(fields)}
        with self._lock:
            self._last += 1
            self._pets[self._last] = {"id": self._last, **pet}
            return dict(self._pets[self._last])

    def find(self, status=None, tags=(), limit=20, offset=0):
        """One page of the pets with this status and all tags, and the total."""
        with self._lock:
            pets = [dict(pet) for pet in self._pets.values()]
        found = [pet for pet in pets if status in (None, pet["status"]) and set(tags) <= set(pet["tags"])]
        return {"pets": found[offset : offset + limit], "total": len(found)}

    def read(self, pet_id):
        """One pet."""
        with self._lock:
            return dict(self._there(pet_id))

    def update(self, pet_id, fields):
        """Change the given fields."""
        changes = checked(fields)
        with self._lock:
            self._pets[pet_id] = {**self._there(pet_id), **changes}
            return dict(self._pets[pet_id])

    def delete(self, pet_id):
        """Delete a pet and its image."""
        with self._lock:
            self._there(pet_id)
            del self._pets[pet_id]
            self._images.pop(pet_id, None)

    def keep_image(self, pet_id, media_type, data, caption):
        """Store the image of a pet, replacing any other."""
        with self._lock:
            self._there(pet_id)
            self._images[pet_id] = (media_type, data)
        digest = hashlib.sha256(data).hexdigest()
        return {"pet_id": pet_id, "media_type": media_type, "bytes": len(data), "sha256": digest, "caption": caption}

    def image(self, pet_id):
        """Media type and bytes of a pet's image."""
        with self._lock:
            self._there(pet_id)
            if pet_id not in self._images:
                raise Refused(404, f"pet {pet_id} has no image")
            return self._images[pet_id]

    def _there(self, pet_id):
        if pet_id not in self._pets:
            raise Refused(404, f"there is no pet {pet_id}")
        return self._pets[pet_id]


def checked(fields):
    """Validate the fields of a pet, since clients may not follow the specification."""
    if not isinstance(fields, dict):
        raise Refused(400, "the body is not a JSON object")
    rules = {
        "name": (lambda value: isinstance(value, str) and 0 < len(value) <= 60, "1 to 60 characters"),
        "status": (lambda value: value in STATUSES, f"one of {', '.join(STATUSES)}"),
        "tags": (lambda value: isinstance(value, list) and all(isinstance(tag, str) for tag in value), "texts"),
    }
    for name, value in fields.items():
        if name not in rules:
            raise Refused(422, f"{name}: pets have no such field")
        if not rules[name][0](value):
            raise Refused(422, f"{name}: must be {rules[name][1]}")
    return fields


class Handler(BaseHTTPRequestHandler):
    """One connection; `server` has the pets and the key."""

    protocol_version = "HTTP/1.1"
    server_version = "petstore"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 30

    def handle_one(self):
        """Answer one request of any method."""
        try:
            self._answer(*self._run())
        except Refused as refused:
            self._answer(refused.status, {"error": HTTPStatus(refused.status).phrase, "message": str(refused)})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - as http.server wants it

    def _run(self):
        target = urlsplit(self.path)
        body = self._body()
        segments = [unquote(segment) for segment in target.path.split("/")[1:]]
        if segments[0] != "pets" or len(segments) > 3 or segments[2:] not in ([], ["image"]):
            raise Refused(404, "there is nothing here; see petstore.yaml")
        kind = "pets" if len(segments) == 1 else "pet" if len(segments) == 2 else "image"
        method = "GET" if self.command == "HEAD" else self.command
        action = getattr(self, f"_{method.lower()}_{kind}", None)
        if action is None:
            raise Refused(405, f"{self.command} cannot be done here")
        if method != "GET":
            self._check_key()
        if kind == "pets":
            return action(body if method != "GET" else parse_qs(target.query))
        return action(_number(segments[1], "the id of a pet"), body)

    def _get_pets(self, query):
        status = query.get("status", [None])[-1]
        if status not in (None, *STATUSES):
            raise Refused(422, f"status: must be one of {', '.join(STATUSES)}")
        limit = min(_number(query.get("limit", ["20"])[-1], "limit"), MOST_PETS)
        offset = _number(query.get("offset", ["0"])[-1], "offset")
        return 200, self.server.pets.find(status, query.get("tag", ()), limit, offset)

    def _post_pets(self, body):
        pet = self.server.pets.create(checked(_json(body)))
        return 201, pet, {"Location": f"/pets/{pet['id']}"}

    def _get_pet(self, pet_id, _):
        return 200, self.server.pets.read(pet_id)

    def _patch_pet(self, pet_id, body):
        return 200, self.server.pets.update(pet_id, _json(body))

    def _delete_pet(self, pet_id, _):
        self.server.pets.delete(pet_id)
        return 204, None

    def _put_image(self, pet_id, body):
        parts = _multipart(self.headers.get("Content-Type", ""), body)
        if "image" not in parts:
            raise Refused(422, "image: the form has no such part")
        media_type, data = parts["image"]
        if not media_type.startswith("image/"):
            raise Refused(415, f"image: {media_type} is no image")
        caption = parts.get("caption", ("", b""))[1].decode(errors="replace")
        return 200, self.server.pets.keep_image(pet_id, media_type, data, caption)

    def _get_image(self, pet_id, _):
        media_type, data = self.server.pets.image(pet_id)
        return 200, data, {"Content-Type": media_type}

    def _check_key(self):
        sent = self.headers.get("Authorization", "").encode(errors="replace")
        if not hmac.compare_digest(sent, f"Bearer {self.server.key}".encode()):
            raise Refused(401, "changing something needs the key, as a bearer token")

    def _body(self):
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise Refused(411, "say how long the body is")
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length[:16]) > MAX_BODY:
            self.close_connection = True
            raise Refused(413, f"the body is larger than {MAX_BODY:,} bytes")
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            self.close_connection = True
            raise Refused(400, "the body ends before it is whole")
        return data

    def _answer(self, status, value, headers=None):
        data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
            if "Content-Type" not in (headers or {}):
                self.send_header("Content-Type", "application/json")
        for name, said in (headers or {}).items():
            self.send_header(name, said)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code, message=None, explain=None):
        """Send http.server's own errors as JSON too."""
        self.close_connection = True
        self.command = self.command or ""
        self._answer(code, {"error": HTTPStatus(code).phrase, "message": message or HTTPStatus(code).description})

    def log_message(self, words, *values):
        """Log to stderr, if enabled."""
        if self.server.loud:
            super().log_message(words, *values)


def _number(text, what):
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Refused(422, f"{what}: must be a whole number")
    return int(text)


def _json(body):
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None


def _multipart(content_type, body):
    """The parts of a form by name: media type and bytes."""
    head = Message()
    head["Content-Type"] = content_type
    boundary = head.get_boundary()
    if head.get_content_type() != "multipart/form-data" or not boundary:
        raise Refused(415, "the body must be multipart/form-data")
    found = {}
    for chunk in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:]:
        if chunk.startswith(b"--"):
            return found
        lines, blank, data = chunk.partition(b"\r\n\r\n")
        part = BytesHeaderParser().parsebytes(lines.lstrip(b"\r\n") + b"\r\n\r\n")
        name = part.get_param("name", header="Content-Disposition")
        if not blank or not isinstance(name, str):
            break
        found[name] = (part.get_content_type(), data)
    raise Refused(400, "the form is not whole")


class PetServer(ThreadingHTTPServer):
    """Pets, the key, and a thread for every connection."""

    daemon_threads = True

    def __init__(self, host, port, key, loud=False):
        super().__init__((host, port), Handler)
        self.pets = Pets()
        self.key = key
        self.loud = loud

    def handle_error(self, request, client_address):
        """Ignore clients that disconnect; report everything else, which is a bug."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def main():
    """Serve until SIGTERM or Ctrl-C."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8123, help="0 takes a free one")
    options.add_argument("--log", action="store_true", help="write a line for every request to stderr")
    asked = options.parse_args()
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    # From the environment, not an argument: other users of the machine can see arguments.
    key = os.environ.get("PETSTORE_KEY") or secrets.token_urlsafe(18)
    with PetServer(asked.host, asked.port, key, asked.log) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        print(json.dumps({"url": f"http://{asked.host}:{server.server_address[1]}", "key": key}), flush=True)
        end.wait()
        server.shutdown()
        serving.join()


if __name__ == "__main__":
    main()
