"""The minimum of a toolyard server that a client needs, on a server that can misbehave on request."""

from links.fake_server import FakeServer, respond, respond_error

from toolyard.model.tool import Tool

ECHO = Tool("echo", "n", "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}})
EXECUTE = ("POST", "/v1/sessions/s/execute")
TOOLS = ("GET", "/v1/tools")
VERSION = ("GET", "/v1/version")


def native(tool):
    """A tool in the native catalog format."""
    hashes = {"fingerprint": tool.fingerprint, "definition_hash": tool.definition_hash}
    return {"qualified_name": tool.qualified_name, **tool.to_dict(), **hashes}


def result(call, value):
    return {"call_id": call.get("call_id"), "name": call["name"], "result": value, "error": None, "metadata": {}}


class FakeWire(FakeServer):
    """Behaves like a server with some tools; calls return their arguments and are counted by idempotency key."""

    def __init__(self, *tools, page=1000, context=None):
        self.tools = [native(tool) for tool in tools or (ECHO,)]
        self.page = page
        self.generation = 1
        self.versions = ["v1"]
        self.ran = {}
        super().__init__(context)
        self.otherwise = self.answer

    def answer(self, request):
        match (request.method, request.segments):
            case ("GET", ["v1", "version"]):
                about = {
                    "service_name": "toolyard",
                    "service_version": "9.9.9",
                    "supported_api_versions": self.versions,
                }
                return respond(200, about)
            case ("GET", ["v1", "tools"]):
                return self._tools(int(request.query.get("cursor", 0)))
            case ("POST", ["v1", "calls"] | ["v1", "sessions", _, "execute" | "simulate"]):
                return self.run(request)
            case ("POST", ["v1", "sessions", *_]):
                return respond(201, {"session_id": "s", "entries": 0, "state_hash": "0"})
            case ("GET", ["v1", "sessions", _]):
                return respond(200, {"session_id": "s", "entries": 0, "state_hash": "0"})
            case ("DELETE", _):
                return respond(204)
        return respond_error(404, "route.not_found")

    def run(self, request):
        """The response to calls, which run once per idempotency key."""
        key = request.headers["idempotency-key"]
        if key not in self.ran:
            self.ran[key] = [result(call, call["arguments"]) for call in request.json["calls"]]
        return respond(200, {"results": self.ran[key]})

    def _tools(self, start):
        body = {"tools": self.tools[start : start + self.page], "generation": self.generation}
        if start + self.page < len(self.tools):
            body["next_cursor"] = str(start + self.page)
        return respond(200, body)


def after_running(server, act):
    """Run the calls, then do `act` in place of sending the response."""

    def run_first(connection, request):
        server.run(request)
        return act(connection, request)

    return run_first
