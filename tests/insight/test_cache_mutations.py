"""One field of one tool is changed, 200 times: whatever depends on it is computed again, and nothing else."""

import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from links.lm.model_server import ModelServer

from conftest import SOAK
from insight.embedder_stub import HashEmbedder
from toolyard import (
    DataflowEnrichment,
    EmbeddingsEnrichment,
    NeighborsEnrichment,
    OutputParametersEnrichment,
    Tool,
    ToolRegistry,
)
from toolyard.insight.cache import FILE

MUTATIONS = 200 if SOAK else 60
IRRELEVANT = ("namespace", "metadata", "tags", "aliases", "version", "source", "effects")
"""Fields that no text and no schema is made of."""
SILENT = IRRELEVANT[1:]
"""Of those: what never makes another text worth comparing. Ids are compared within a namespace."""
_WORDS = [
    "order",
    "user",
    "price",
    "city",
    "hotel",
    "flight",
    "weather",
    "amount",
    "date",
    "name",
    "search",
    "list",
    "create",
    "cancel",
    "status",
    "total",
]


def base():
    """Ten tools, some with output schemas, some alike."""
    rng = random.Random(9)
    tools = []
    for n in range(10):
        verb, noun = rng.choice(("get", "search", "create", "cancel")), rng.choice(_WORDS)
        properties = {
            f"{word}_id": {"type": "string", "description": f"The id of the {word}."} for word in rng.sample(_WORDS, 2)
        }
        output = {"type": "object", "properties": {f"{noun}_id": {"type": "string"}}} if n % 3 == 0 else {}
        tools.append(
            Tool(
                f"{verb}_{noun}_{n}",
                f"ns{n % 2}",
                f"{verb.title()} a {noun}.",
                {"type": "object", "properties": properties},
                output,
            )
        )
    return tools


def mutated(tools, rng, serial):
    """The tools with one field of one of them changed to something new; which field, and the tool as it was."""
    place = rng.randrange(len(tools))
    tool = tools[place]
    field = rng.choice(("name", "description", "parameters", "parameters", "output_parameters", *IRRELEVANT))
    word = f"{rng.choice(_WORDS)} {serial}"
    value = {
        "name": f"{tool.name}_{serial}",
        "namespace": f"ns{serial}",
        "description": f"{tool.description} About the {word}.",
        "parameters": _changed_schema(tool.parameters, rng, serial),
        "output_parameters": {
            "type": "object",
            "properties": {f"out_{serial}": {"type": "string", "description": word}},
        },
        "metadata": {"note": word},
        "tags": (word,),
        "aliases": (f"alias_{serial}",),
        "version": str(serial),
        "source": word,
        "effects": "write",
    }[field]
    return [*tools[:place], tool.replace(**{field: value}), *tools[place + 1 :]], field, tool


def _changed_schema(schema, rng, serial):
    properties = {key: dict(part) for key, part in schema["properties"].items()}
    key = rng.choice(sorted(properties))
    how = rng.randrange(4)
    if how == 0:
        properties[key]["description"] = f"Number {serial}."
    elif how == 1:
        properties[key]["type"] = "integer"
    elif how == 2:
        properties[f"new_{serial}"] = {"type": "number"}
    else:
        properties[f"renamed_{serial}"] = properties.pop(key)
    return {**schema, "properties": properties}


def rows(folder):
    path = folder / FILE
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as db:
        return set(db.execute("SELECT kind, key FROM items"))


def run(tools, folder):
    """Everything that is known about the tools, and the texts that were embedded for it."""
    embedder = HashEmbedder(batch=1000)
    shared = {"cache": folder if folder is False else str(folder)}
    registry = ToolRegistry(
        tools,
        enrichments=[
            NeighborsEnrichment(model=embedder, **shared),
            DataflowEnrichment(model=embedder, **shared),
            EmbeddingsEnrichment(model=embedder, **shared),
            OutputParametersEnrichment(**shared),
        ],
    )
    artifacts = registry.artifacts
    known = {
        "outputs": [tool.output_parameters for tool in registry],
        "embeddings": np.asarray(artifacts["embeddings"].matrix).tolist(),
        "dataflow": _plain(artifacts["dataflow"]),
        "neighbors": _plain(artifacts["neighbors"]),
    }
    return known, embedder.texts


def _plain(value):
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if hasattr(value, "items") else value


def test_a_changed_field_is_recomputed_alone(tmp_path):
    rng = random.Random(2026)
    original = base()
    first, seen = run(original, tmp_path)
    stale, needless, missing = [], [], []
    for serial in range(MUTATIONS):
        tools, field, tool = mutated(original, rng, serial)
        before = rows(tmp_path)
        known, embedded = run(tools, tmp_path)
        inferred = len([row for row in rows(tmp_path) - before if row[0] == "output_parameters.rules"])
        truth, texts = run(tools, False)
        wanted = set(texts) - set(seen)
        read = field in ("name", "description", "parameters") and not tool.output_parameters
        if known != truth:
            stale.append((serial, field))
        if len(embedded) > len(wanted) or inferred > read or (field in SILENT and wanted):
            needless.append((serial, field))
        if set(embedded) != wanted or (inferred < read and field != "parameters"):
            missing.append((serial, field))
        seen += embedded
    assert (stale, needless, missing) == ([], [], [])
    again, embedded = run(original, tmp_path)
    assert again == first and embedded == []


@pytest.mark.parametrize("serial", [5])
def test_the_model_is_asked_only_about_changed_tools(tmp_path, serial):
    rng = random.Random(serial)
    original = [tool.replace(output_parameters={}) for tool in base()]
    said = '{"type": "object", "properties": {"a": {"type": "string"}}}'
    wrong = []
    with ModelServer(otherwise=lambda asked: said) as server:
        config = {"type": "openai", "model_id_or_path": "m", "base_url": server.url, "retries": 0}

        def ask(tools):
            server.asked.clear()
            ToolRegistry(tools, enrichments=[OutputParametersEnrichment(lm_config=config, cache=str(tmp_path))])
            return len(server.asked)

        assert ask(original) == len(original)
        for number in range(60):
            tools, field, _ = mutated(original, rng, number)
            wanted = 0 if field in (*IRRELEVANT, "output_parameters") else 1
            if ask(tools) not in ((0, 1) if field == "parameters" else (wanted,)):
                wrong.append((number, field))
        assert ask(original) == 0
    assert wrong == []
