"""Verbs of tool names and HTTP methods, and what a call by that name does to the entities it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

CrudVerb = Literal["create", "get", "list", "update", "replace", "delete", "act", "none"]
"""What is done to entities; `act` changes one in a way of its own, `none` deals with no entity."""

_VERBS: Mapping[CrudVerb, str] = {
    "create": "create add insert register make new book schedule open post upload submit place start issue reserve",
    "get": "get read fetch retrieve show describe view lookup info",
    "list": "list search find query browse enumerate index filter",
    "update": "update edit modify change set patch rename",
    "replace": "replace put upsert",
    "delete": "delete remove destroy drop erase",
    "act": (
        "send cancel close archive publish approve reject pay run enable disable activate deactivate stop restart "
        "transfer merge"
    ),
}
CRUD_BY_VERB: Mapping[str, CrudVerb] = {verb: crud for crud, verbs in _VERBS.items() for verb in verbs.split()}
CRUD_BY_METHOD: Mapping[str, CrudVerb] = {
    "get": "get",
    "head": "none",
    "put": "replace",
    "patch": "update",
    "delete": "delete",
}
"""Of a path that names one entity; what `post` does depends on the path."""
