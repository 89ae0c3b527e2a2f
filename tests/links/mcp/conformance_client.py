"""A client for the conformance suite, using `McpLink`: scenario from the environment, URL as the last argument."""

import json
import os
import sys
from urllib.parse import urlsplit

from toolyard.links.mcp import Handlers, McpLink
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallError, DefinitionError
from toolyard.sources.mcp.loader import read_entry


def elicited(params):
    """Accept with the schema's defaults, as the suite expects."""
    properties = params.get("requestedSchema", {}).get("properties", {})
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {"action": "accept", "content": content}


def usable(server, entries):
    """The tools that a source would load, with the arguments that are repeated in headers."""
    found = {}
    for entry in entries:
        try:
            tool, _ = read_entry(entry, namespace="n", source="s", server=server)
        except DefinitionError as error:
            print("left out:", error)
            continue
        found[tool.name] = (entry, tool.binding.mirrored)
    return found


def arguments_of(name, tools):
    if name == "add_numbers":
        return {"a": 5, "b": 3}
    if name == "json_schema_echo":
        return {"schema": tools["json_schema_2020_12_tool"][0]["inputSchema"]}
    return {}


def main():
    url = sys.argv[-1]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    auth = ()
    if scenario.startswith("auth/"):
        auth = authorization(context, scenario, urlsplit(url).hostname)
    server = McpServer(name="conformance", url=url, transport="http", auth=auth)
    # Who can be asked listens all the time; the server of `sse-retry` answers a call on any stream that is opened
    # while it is pending, against the protocol, so one that is opened late would take the answer.
    handlers = Handlers() if scenario == "sse-retry" else Handlers(elicitation=elicited)
    link = McpLink(server, handlers=handlers)
    failed = False
    try:
        tools = usable(server, link.list_tools().tools)
        calls = context.get("toolCalls") or [{"name": name, "arguments": arguments_of(name, tools)} for name in tools]
        for call in calls:
            _, mirrored = tools.get(call["name"], ({}, ()))
            try:
                result = link.call(call["name"], call.get("arguments") or {}, mirrored=mirrored)
                print(call["name"], json.dumps(result)[:300])
            except CallError as error:
                print(call["name"], "failed:", error)
    except CallError as error:
        print("failed:", error, file=sys.stderr)
        failed = True
    finally:
        link.close()
    sys.exit(1 if failed else 0)


def authorization(context, scenario, host):
    """How to log in: by client credentials if the suite gives any, else by a simulated user."""
    from toolyard.links.mcp import authorization as logins

    class Robot:
        async def log_in(self, url, redirect, seconds):
            import asyncio
            import urllib.request
            from urllib.parse import parse_qs

            def fetch():
                opener = urllib.request.build_opener(NoRedirect)
                try:
                    opener.open(url)
                except urllib.error.HTTPError as error:
                    return error.headers["location"]
                return None

            location = await asyncio.to_thread(fetch)
            fields = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
            return logins.LoginAnswer(fields["code"], fields.get("state"), fields.get("iss"))

    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args, **kwargs):
            return None

    logins.LOGIN = Robot()
    # The suite's authorization servers are also on this machine, on other ports.
    fields = {"type": "oauth", "hosts": (host, "localhost", "127.0.0.1")}
    for name in ("client_id", "client_secret"):
        if context.get(name):
            fields[name] = context[name]
    return tuple(fields.items())


if __name__ == "__main__":
    main()
