"""Responses: what a call gives when it goes well."""

from __future__ import annotations

import re
from typing import Any

from toolyard.links.http.media import bare_media_type, media_kind
from toolyard.sources.rest.refs import Files, ResolvedRef
from toolyard.sources.rest.swagger2 import Swagger

_SUCCESS = re.compile(r"2(?:[0-9]{2}|[xX]{2})")


def success(
    operation: dict[str, Any], file: str, files: Files, swagger: Swagger | None
) -> tuple[ResolvedRef | None, tuple[str, ...]]:
    """The schema of the first success that has JSON, with its file; and the media types of all successes.

    `default` counts where it is all there is: beside others it describes what went wrong.
    """
    responses = operation.get("responses")
    if type(responses) is not dict:
        return None, ()
    schema: ResolvedRef | None = None
    accepts: dict[str, None] = {}
    for code in _success_codes(responses):
        settled = files.settle(responses[code], file)
        raw = swagger.response(settled.node, operation) if swagger is not None else settled.node
        content = raw.get("content") if type(raw) is dict else None
        if type(content) is not dict:
            continue
        accepts.update(dict.fromkeys(map(str, content)))
        if schema is None:
            schema = _json_schema(content, settled.file, files)
    return schema, tuple(accepts)


def _success_codes(responses: dict[str, Any]) -> list[str]:
    codes = [code for code in responses if code[:1] == "2" and _SUCCESS.fullmatch(code)]
    if len(codes) > 1:
        codes.sort(key=str.upper)
    if not codes and "default" in responses and all(code == "default" or code[:2] == "x-" for code in responses):
        return ["default"]
    return codes


def _json_schema(content: dict[str, Any], file: str, files: Files) -> ResolvedRef | None:
    kinds = [kind for kind in content if type(kind) is str and media_kind(kind) == "json"]
    kinds.sort(key=lambda kind: bare_media_type(kind) != "application/json")
    for kind in kinds:
        media = files.settle(content[kind], file)
        if type(media.node) is dict and isinstance(media.node.get("schema"), (dict, bool)):
            return ResolvedRef(media.node["schema"], media.file)
    return None
