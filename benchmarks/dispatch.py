"""A. In-process dispatch: dict arguments, JSON text, two overloads."""

from __future__ import annotations

import jsonschema_rs
import orjson

from benchmarks.harness import Row, measure, show
from benchmarks.material import CALL, SCHEMA, forecast
from benchmarks.peers import dispatch_rows
from toolyard import PythonBinding, Tool, ToolRegistry, function_tool

LIMIT = "jsonschema-rs validate + call"
TEXT_LIMIT = "orjson + jsonschema-rs validate + call"
TEXT = orjson.dumps(CALL).decode()


def run() -> bool:
    """Measure and print."""
    validate = jsonschema_rs.validator_for(SCHEMA, offline=True).validate
    one = ToolRegistry([function_tool(forecast, namespace="weather", parameters=SCHEMA)])
    two = ToolRegistry([_bound(SCHEMA), _bound({**SCHEMA, "properties": {**SCHEMA["properties"], "x": {}}})])
    typed = ToolRegistry([function_tool(forecast, namespace="weather")])

    def by_hand() -> object:
        validate(CALL)
        return forecast(**CALL)

    def text_by_hand() -> object:
        arguments = orjson.loads(TEXT)
        validate(arguments)
        return forecast(**arguments)

    dicts = [
        Row("LIMIT bare call + Result", lambda: forecast(**CALL), 20_000),
        Row(LIMIT, by_hand, 20_000),
        Row("toolyard dispatch", lambda: one.dispatch("weather::forecast", CALL), 20_000, LIMIT, 1.5),
        Row(
            "toolyard dispatch, schema from annotations",
            lambda: typed.dispatch("weather::forecast", CALL),
            20_000,
            LIMIT,
        ),
        Row(
            "toolyard dispatch, two overloads",
            lambda: two.dispatch("weather::forecast", CALL),
            20_000,
            "toolyard dispatch",
            3.0,
        ),
        *dispatch_rows(LIMIT),
    ]
    texts = [
        Row("LIMIT orjson.loads + bare call", lambda: forecast(**orjson.loads(TEXT)), 20_000),
        Row(TEXT_LIMIT, text_by_hand, 20_000),
        Row("toolyard dispatch, JSON text", lambda: one.dispatch("weather::forecast", TEXT), 20_000, TEXT_LIMIT),
    ]
    measure(dicts, 15)
    measure(texts, 15)
    first = show("A. dispatch, dict arguments", dicts)
    return show("A. dispatch, JSON-string arguments", texts) and first


def _bound(schema: dict[str, object]) -> Tool:
    return Tool("forecast", "weather", "", schema, binding=PythonBinding(forecast))
