"""Calls a server, forks, and calls from both processes; prints one line per response.

forked_caller.py stdio SCRIPT | http URL
"""

import json
import os
import sys
import time
import warnings

from toolyard.links.mcp import give_back, lease
from toolyard.links.mcp.link import _LINKS
from toolyard.model.bindings import McpServer

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
kind, where = sys.argv[1:]
if kind == "stdio":
    server = McpServer(name="raw", transport="stdio", command=sys.executable, args=(where, "plain"))
else:
    server = McpServer(name="web", url=where, transport="http")
link = lease(server)


def say(who, **facts):
    sys.stdout.write(json.dumps({"who": who, **facts}) + "\n")
    sys.stdout.flush()


def call(who):
    found = link.call("echo", {"text": who}, deadline=time.monotonic() + 20)["content"][0]["text"]
    pid = link.call("pid", {}, deadline=time.monotonic() + 20)["content"][0]["text"] if kind == "stdio" else ""
    say(who, got=found, pid=pid, state=link.state)


call("before")
child = os.fork()
if child == 0:
    say("born", state=link.state)
    for _ in range(3):
        call("child")
    give_back(link)
    say("child closed", state=link.state, leases=len(_LINKS))
    sys.exit(0)  # the way that runs what was left for the exit, too
for _ in range(3):
    call("parent")
os.waitpid(child, 0)
call("after")
give_back(link)
say("closed", state=link.state)
