"""100,000 random qualified names are encoded by every dialect and decoded, without loss or collision."""

from __future__ import annotations

import random
import re

from toolyard import Tool
from toolyard.dialects import DIALECTS, WireNames, get_dialect

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ALPHABETS = ["abcxyz019_-", "abcXYZ_./ :", "äöüßéèê-_ ", "日本語天気予報", "абвгд_", "αβγδ-"]


def run() -> bool:
    """Check and print."""
    rng = random.Random(20_26)
    names = _names(rng, 100_000)
    tools = [Tool(name, namespace) for namespace, name in names]
    wire = WireNames(tools)
    encoded = [wire.encode(tool) for tool in tools]
    illegal = sum(not _LEGAL.fullmatch(name) for name in encoded)
    lost = sum(wire.find(name) != (tool.qualified_name, None) for name, tool in zip(encoded, tools, strict=True))
    print("\n## Names\n")
    print(
        f"{len(tools):,} random qualified names: {len(tools) - len(set(encoded))} collisions, "
        f"{illegal} illegal, {lost} lost"
    )
    good = illegal == lost == 0 and len(set(encoded)) == len(tools)
    for name in (name for name in DIALECTS if name != "mcp"):
        dialect = get_dialect(name, tools)
        back = _through(dialect, tools)
        print(f"through {name}: {sum(back):,} of {len(tools):,} came back")
        good = good and all(back)
    return good


def _through(dialect: object, tools: list[Tool]) -> list[bool]:
    from toolyard import ToolCall

    calls = [ToolCall(tool.qualified_name, {}, str(index)) for index, tool in enumerate(tools)]
    back = []
    for call in calls:
        parsed = dialect.parse_calls(dialect.format_calls([call]))  # type: ignore[attr-defined]
        back.append(len(parsed) == 1 and parsed[0].name == call.name)
    return back


def _names(rng: random.Random, count: int) -> list[tuple[str, str]]:
    from toolyard.model.errors import InvalidNameError
    from toolyard.model.names import check_namespace, check_tool_name

    found: dict[tuple[str, str], None] = {}
    while len(found) < count:
        alphabet = rng.choice(_ALPHABETS)
        namespace, name = ("".join(rng.choices(alphabet, k=rng.randint(1, rng.choice([8, 40, 128])))) for _ in range(2))
        try:
            check_namespace(namespace)
            check_tool_name(name)
        except InvalidNameError:
            continue
        found[namespace, name] = None
    return list(found)
