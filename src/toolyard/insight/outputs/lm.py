"""Output schemas from a language model: what is asked, and what is made of the answer."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from asyncio import Event as Enough
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.insight.base import track_progress
from toolyard.loop.home import home_loop, link_loop
from toolyard.model.errors import CallError, InvalidSchemaError, MalformedSource, SyncInAsyncError
from toolyard.model.tool import Schema, Tool
from toolyard.parsing import parse_json
from toolyard.schema.admission import admit_schema

if TYPE_CHECKING:
    from toolyard.links.lm import LMClient, Message

INSTRUCTION = """\
You are given the specification of a tool as JSON: its name, what it does, and its parameters. Say what the tool \
returns when it succeeds: answer with one JSON Schema of type "object" and nothing else.
Give each value a property of its own with a type and a short description; use arrays and nested objects where the \
tool returns several things or things with parts. Name properties as the parameters are named, and call an id by what \
it is the id of. Leave out "required", and leave out errors."""
_HOPELESS = 20
"""Failures in a row, with nothing in between, after which nobody is asked any more."""
_FENCED = re.compile(r"```[a-zA-Z]*[ \t\r]*\n(.*?)```", re.DOTALL)
_THOUGHT = "</think>"
_log = logging.getLogger(__name__)

Said = tuple[int, str | CallError]
"""Which tool it is about, and the text of the answer, or why there is none."""


def messages_for(tool: Tool) -> tuple[Message, ...]:
    """The conversation in which a model is asked about a tool."""
    from toolyard.links.lm import Message

    specification = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return Message("system", INSTRUCTION), Message("user", _write_json(specification))


def _write_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # Half a surrogate pair is no text for a server: it is a question mark, and the rest can be read.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode()


def ask_all(
    client: LMClient, tools: Sequence[Tool], finished: Callable[[int, Schema], None], *, label: str
) -> dict[int, Schema]:
    """The schemas that a model gives, by place; as many tools at once as the client allows.

    `finished` is called with each as it comes. A tool that the model gives nothing usable for is left out, and warned
    about; so are all that remain when nobody seems to be there.
    """
    if home_loop.is_here() or link_loop.is_here():
        raise SyncInAsyncError("enrichments that ask a model cannot run on an event loop of toolyard; use a thread")
    found: dict[int, Schema] = {}
    said: SimpleQueue[Said | None] = SimpleQueue()
    enough = Enough()
    asking = home_loop.submit(_ask_all(client, tools, said, enough))
    asking.add_done_callback(lambda _: said.put(None))
    in_a_row = 0
    try:
        for place, answer in track_progress(iter(said.get, None), label, len(tools)):
            schema, problem = (None, str(answer)) if isinstance(answer, CallError) else read_schema(answer)
            if schema is not None:
                finished(place, schema)
                found[place] = schema
            else:
                _log.warning("no output schema for %s: %s", tools[place].qualified_name, problem)
            in_a_row = in_a_row + 1 if isinstance(answer, CallError) else 0
            if in_a_row >= _HOPELESS and not found:
                _log.warning("the model failed %d times and never answered; nobody asks it any more", in_a_row)
                break
    finally:
        home_loop.call_soon(enough.set)
        asking.result()
    return found


async def _ask_all(client: LMClient, tools: Sequence[Tool], said: SimpleQueue[Said | None], enough: Enough) -> None:
    """Ask about every tool and tell each answer as it comes, until all are there or it is enough."""
    form = None if client.config.response_format == "text" else {"type": "json_object"}

    async def one(place: int, tool: Tool) -> None:
        try:
            answer = await client.complete(client.request(messages_for(tool), form))
        except CallError as error:
            said.put((place, error))
        else:
            said.put((place, answer.text))

    tasks = [asyncio.ensure_future(one(place, tool)) for place, tool in enumerate(tools)]
    ended = asyncio.gather(*tasks)
    stopped = asyncio.ensure_future(enough.wait())
    try:
        both: set[asyncio.Future[Any]] = {ended, stopped}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            ended.result()
    finally:
        # Nobody may be on the wire any more when the client is closed.
        for task in (*tasks, stopped):
            task.cancel()
        await asyncio.gather(ended, *tasks, stopped, return_exceptions=True)


def read_schema(text: str) -> tuple[Schema | None, str]:
    """The object schema that a model answered with, or why it is none.

    Models wrap: a schema inside another object is taken out, and bare properties are put into one.
    """
    value = _json_in(text)
    if not isinstance(value, dict) or not value:
        return None, "the model did not answer with a JSON object"
    found = _unwrap_schema(value)
    if found is None:
        return None, "the model's answer is no JSON Schema of an object"
    found = {"type": "object", **{key: item for key, item in found.items() if key != "required"}}
    if not isinstance(found.get("properties"), dict) or not found["properties"]:
        return None, "the model's schema has no properties"
    try:
        return admit_schema(found, is_input=False).schema, ""
    except InvalidSchemaError as error:
        return None, f"the model's schema cannot be used: {error}"


def _unwrap_schema(value: dict[str, Any]) -> dict[str, Any] | None:
    if _is_object_schema(value):
        return value
    for inner in value.values():
        if isinstance(inner, dict) and _is_object_schema(inner):
            return inner
    if all(isinstance(inner, dict) for inner in value.values()):
        return {"properties": value}
    return None


def _is_object_schema(value: dict[str, Any]) -> bool:
    return isinstance(value.get("properties"), dict) or value.get("type") == "object"


def _json_in(text: str) -> Any:
    said = text.rpartition(_THOUGHT)[2].strip()
    fenced = _FENCED.search(said)
    tries = [said, *([fenced[1]] if fenced else []), said[said.find("{") : said.rfind("}") + 1]]
    for part in tries:
        try:
            return parse_json(part, what="answer")
        except MalformedSource:
            continue
    return None
