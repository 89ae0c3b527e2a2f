"""The quick look: what it lets through calls nothing, and what `inert` doubts it lets through only if harmless."""

import pytest

from toolyard.links.workers.inside.straight import is_straight

from .test_inert import LIVE

STRAIGHT = [
    "",
    '"""Doc."""\nimport os, json as j\nimport xml.dom as d\nfrom urllib.parse import quote\nX = Y = 1\n',
    "from __future__ import annotations\nimport typing as t\ndef f(a: t.Optional[int] = None) -> dict[str, int]: ...\n",
    "def run(a: int, *b: str, c=1, d=(1, 2), **e) -> str: open('/x', 'w')\nasync def b(): pass\nTOOLS = [{'handler': run}]\n",
    "TOOL_TAGS = ['a', 'b', 'c', 'd']\nNAMES = {1, 2, 3}\nTOOL_PARAMETERS = {'a': {'type': ['string', None]}, 'b': NAMES}\n",
    f"LONG = [{', '.join(f'[{n}]' for n in range(40))}]\n",
    f"MANY = [{', '.join(f'N{n % 3}' for n in range(3))}]\n".join(["N0 = N1 = N2 = 1\n", ""]),
    "\n".join(f"NAME_{n} = 'v{n}'" for n in range(600)),
    "f = lambda x: x()\n",
]
REBINDING = ["import re\ndef re(): pass\n", "import re\nre = 1\n"]
"""A name of its own that hides an import does nothing to others; only `inert`, which follows names, has to doubt it."""
BENT = [
    *(text for text in LIVE if text not in REBINDING),
    "X = [*unknown]",
    "import somewhere\nX = [*somewhere]",
    "import somewhere\nX = {**somewhere}",
    "import somewhere\nX = {1, *somewhere}",
    "import somewhere\nX = -somewhere",
    "import somewhere\nX = somewhere < 1",
    "import somewhere\nX = somewhere and 1",
    "import somewhere\nX: somewhere.y = 1",
    "import somewhere\nX = f'{somewhere}'",
    "import somewhere\na, b = somewhere",
    "import somewhere\nsomewhere.x = 1",
    "import somewhere\nsomewhere[0] = 1",
    "import somewhere\ndel somewhere.x",
    "import somewhere\n@somewhere\ndef f(): pass",
    "import os\ndef f(x=os.environ): pass",
    "class A: pass",
    "__name__ = 'a'",
    "__path__ = ['/tmp']",
    "def __getattr__(name): pass",
    "from os import path as __builtins__",
    "from unittest import __main__ as m",
    "from _inside import script",
    "import xml.test as t",
    "from ..a import b",
    "global x\nimport this as x",
    "X = __builtins__",
    "X = __loader__",
    "X = later\nlater = 1",
    "\n".join(f"NAME_{n} = 'v{n}'" for n in range(600)) + "\nX = unknown\n",
    "\n".join(f"NAME_{n} = 'v{n}'" for n in range(600)) + "\nimport this\n",
    "match 1:\n    case 1: pass",
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
]


@pytest.mark.parametrize("text", STRAIGHT + REBINDING)
def test_what_only_imports_defines_and_names_is_straight(text):
    assert is_straight(compile(text, "f.py", "exec", dont_inherit=True))


@pytest.mark.parametrize("text", BENT)
def test_what_might_do_more_is_not(text):
    try:
        code = compile(text, "f.py", "exec", dont_inherit=True)
    except SyntaxError:
        return
    assert not is_straight(code)


def test_what_a_function_does_is_not_looked_at_for_it_is_not_called():
    assert is_straight(compile("def run():\n    import this\n    print(1 + unknown)\n", "f.py", "exec"))
