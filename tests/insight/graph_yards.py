"""Dataflows to draw: a small one by hand, and large ones made up, always alike."""

import random

from tests.insight.given_dataflow import dataflow_of
from toolyard.insight.base import Edge, Feed
from toolyard.model.tool import Tool

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'--><style>*{display:none}</style>]]>&\u2028\u202e\x00"
_THINGS = [
    "user",
    "order",
    "invoice",
    "ticket",
    "repo",
    "file",
    "payment",
    "product",
    "cart",
    "refund",
    "team",
    "event",
    "room",
    "flight",
    "city",
    "card",
]
_VERBS = ["list", "find", "create", "get", "update", "delete", "count", "export", "archive", "assign", "close", "merge"]


def edge(source, target, score, *feeds):
    return Edge(source, target, score, tuple(Feed(output, parameter, score) for output, parameter in feeds), True)


def small():
    """Two namespaces, one of them with overloads and a tool that nothing feeds."""
    tools = [
        Tool("find_user", "desk", "Find a user by name."),
        Tool("get_user", "desk", "Get a user.\n\nAt length.", {"type": "object", "properties": {"user_id": {}}}),
        Tool("get_user", "desk", "Get a user by mail.", {"type": "object", "properties": {"mail": {}}}),
        Tool("sing", "desk"),
        Tool("list_orders", "shop", "Orders of a user."),
        Tool("get_order", "shop", "One order."),
    ]
    edges = [
        edge("desk::find_user", "desk::get_user", 0.9, ("users[].id", "user_id")),
        edge("desk::find_user", "shop::list_orders", 0.7, ("users[].id", "user_id")),
        edge("shop::list_orders", "shop::get_order", 0.95, ("orders[].id", "order_id")),
        edge("shop::get_order", "shop::list_orders", 0.5, ("user.id", "user_id")),
        edge("shop::get_order", "desk::get_user", 0.6, ("user.id", "user_id")),
    ]
    return dataflow_of(tools, edges)


def hostile():
    """Everything that comes from a catalog is an attempt to be markup."""
    tools = [Tool(f"{HOSTILE}{number}", HOSTILE, HOSTILE) for number in range(3)]
    feeds = (Feed(HOSTILE, HOSTILE, 0.9),)
    names = [tool.qualified_name for tool in tools]
    return dataflow_of(tools, [Edge(names[0], names[1], 0.9, feeds), Edge(names[1], names[2], 0.8, feeds)])


def many(count, spaces, seed=1):
    """`count` tools in namespaces of all sizes; lists feed what is about the same thing."""
    chance = random.Random(seed)
    sizes = [1] * spaces
    for _ in range(count - spaces):
        sizes[int(spaces * chance.random() ** 2)] += 1
    tools = []
    for space, size in enumerate(sizes):
        for number in range(size):
            verb, thing = _VERBS[number % len(_VERBS)], _THINGS[(space + number // len(_VERBS)) % len(_THINGS)]
            tail = "" if number < len(_VERBS) * len(_THINGS) else f"_{number}"
            tools.append(
                Tool(f"{verb}_{thing}{tail}", f"{_THINGS[space % len(_THINGS)]}-service-{space}", f"{verb} {thing}.")
            )
    groups = {}
    for place, tool in enumerate(tools):
        groups.setdefault(tool.name.split("_")[1], []).append(place)
    pairs = {}
    for group in groups.values():
        for source in group:
            if tools[source].name.startswith(("list", "find", "create")):
                for target in chance.sample(group, min(len(group), 6)):
                    if source != target and (
                        tools[source].namespace == tools[target].namespace or chance.random() < 0.3
                    ):
                        pairs[source, target] = round(chance.uniform(0.5, 0.99), 4)
    return dataflow_of(tools, [(*pair, score) for pair, score in sorted(pairs.items())])
