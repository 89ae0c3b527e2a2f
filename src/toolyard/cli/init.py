"""`toolyard init`: a small yard with a function, an API and an MCP server, which needs no network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from toolyard.cli.options import OUTPUT, VerbOptions
from toolyard.cli.output import print_json, print_text
from toolyard.model.errors import ConfigError

_CONFIG = """\
# Where tools come from; paths are relative to this file. `toolyard add` adds to the list, and
# `toolyard schema` prints what an editor needs to complete and check it.
tools:
  registry:
    # Functions with type hints are tools as they are.
    - type: python
      target: desk.py
      namespace: desk
    # Every operation of an OpenAPI document is a tool. Nothing answers at the address in it, so answers are made
    # up: take out `engine`, and calls go there.
    - type: rest
      spec: orders.yaml
      namespace: orders
      engine: made_up
    # A program that speaks MCP; this one is toolyard again, with the functions of notes.py.
    - type: mcp
      command: {command}
      args: [-m, toolyard, mcp, notes.py, --names, bare]
      cwd: .
      namespace: notes
  engines:
    made_up: {{type: lm, lm_config: {{type: schema}}}}
"""
_DESK = '''\
"""Tools of the desk."""


def split_bill(total: float, people: int = 2) -> list[float]:
    """Split a bill evenly.

    Args:
        total: What the bill says.
        people: How many share it.
    """
    return [round(total / people, 2)] * people
'''
_NOTES = '''\
"""Served over MCP by `toolyard mcp notes.py`."""

_notes: list[str] = []


def add_note(text: str) -> list[str]:
    """Keep a note, and say which there are."""
    _notes.append(text)
    return _notes
'''
_ORDERS = """\
openapi: 3.1.0
info: {title: Orders, version: "1"}
servers: [{url: "https://orders.example.com"}]
paths:
  /orders:
    post:
      operationId: createOrder
      summary: Order something.
      requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
      responses:
        "201": {description: Made, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
  /orders/{id}:
    get:
      operationId: getOrder
      summary: Look at an order.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses:
        "200": {description: Found, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
components:
  schemas:
    Order:
      type: object
      required: [item]
      properties: {id: {type: string, readOnly: true}, item: {type: string}, quantity: {type: integer, default: 1}}
"""
_FILES = {"toolyard.yaml": _CONFIG, "desk.py": _DESK, "notes.py": _NOTES, "orders.yaml": _ORDERS}


def init(folder: Path = Path(), /, *, options: VerbOptions = OUTPUT) -> int:
    """Make a small yard with one function, one API and one MCP server. No file that is there is changed.

    Parameters
    ----------
    folder
        Where; made if need be.
    """
    there = [name for name in _FILES if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder}: has {', '.join(there)} already; nothing was written, name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        # As JSON, which YAML reads: the path may hold anything.
        made = text.format(command=json.dumps(sys.executable)) if text is _CONFIG else text
        (folder / name).write_text(made, encoding="utf-8")
    config = folder / "toolyard.yaml"
    if options.json:
        print_json({"folder": str(folder), "files": list(_FILES)})
        return 0
    print_text(f"made {', '.join(str(folder / name) for name in _FILES)}; next:")
    for command in (f"tools {config}", f"call {config}::split_bill total=90", f"open {config}"):
        print_text(f"  toolyard {command}")
    return 0
