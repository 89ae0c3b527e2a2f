"""Names of arguments: as on the wire, and told apart where two places use one name."""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.sources.rest.bodies import RequestBody
from toolyard.sources.rest.parameters import OperationParameter
from toolyard.sources.rest.plan import BODY, Plan

_BODY = "body"


def name_arguments(plan: Plan, parameters: Iterable[OperationParameter], body: RequestBody | None) -> list[str]:
    """Give every parameter and every property of the body its argument; the renames, in words.

    Of several with one name the path parameter keeps it; `name_in_query`, `name_in_header`, `name_in_cookie` and
    `name_in_body` are the others.
    """
    given = list(parameters)
    inside = [] if body is None else list(body.properties) if body.properties is not None else [BODY]
    names = [parameter.name for parameter in given] + inside
    plan.body = body
    if len(set(names)) == len(names):
        plan.arguments = {parameter.name: parameter for parameter in given}
        if body is not None and body.properties is not None:
            plan.properties = {name: name for name in inside}
        return []
    return _told_apart(plan, given, inside, names)


def _told_apart(plan: Plan, given: list[OperationParameter], inside: list[str], names: list[str]) -> list[str]:
    shared = {name for name in names if names.count(name) > 1}
    taken = set(names)
    renamed: list[str] = []

    def choose(name: str, place: str) -> str:
        if name not in shared or place == "path":
            return name
        wanted = argument = f"{name}_in_{place}"
        number = 2
        while argument in taken:
            argument = f"{wanted}_{number}"
            number += 1
        taken.add(argument)
        renamed.append(f"{place} {name!r} is the argument {argument!r}: another place uses the name too")
        return argument

    plan.arguments = {choose(parameter.name, parameter.location): parameter for parameter in given}
    if plan.body is not None and plan.body.properties is None:
        plan.whole = choose(BODY, _BODY)
    else:
        plan.properties = {choose(name, _BODY): name for name in inside}
    return renamed
