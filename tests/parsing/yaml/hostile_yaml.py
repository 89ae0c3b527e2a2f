"""Random YAML, well formed or not, with everything in it that two parsers could disagree about."""

from __future__ import annotations

import random
from typing import Any

import yaml

TAME = (  # noqa: SIM905 - words are easier to read than a list of them
    "a b key value name type string returns the user's list of (see x) 1 0 -1 2.5 1e3 010 200 true false null ~ yes no on 2024-01-02"
    ' http://x.y/z?q=1&r=2 **bold** *it* Q & A x#y a:b 5% é 日本 😀 say "so" [link](u) {id} x_y x_1 - -- \\d+ | > ! ?'
).split(" ")
PROSE = (*TAME, "wait:", "#", "# x", "- x", "a: b", "'", "{", "[x,", "_1", "&nbsp;", "!", "1_0:")
WILD = (  # noqa: SIM905 - words are easier to read than a list of them
    "+1 0o17 0x1F 0b1 0X1 -0x1 1_000 _1 1_ 1. .5 1e400 .inf -.INF .nan .iNf 12e03 -0 -0.0 12:30:00 << <<: = #c &amp; !important @at"
    " `c` \u2028 \x85 a\u2029b \ufeff \xa0 --- ... ? : :: |- >+ |2 >-1 404 True NULL TRUE it's a\tb [ ] { } , [x {y, x] ' \" %d &a *a !t"
).split(" ")
INDICATORS = (
    "- ", "-", "? ", "?", ": ", ":", ":\n", "-\n", "- - ", "? - ", "- ? ", ": - ", "[", "]", "{", "}", ", ", ",", "[]", "{}",
    "[ ]", "{ }", "|\n", ">\n", "|-\n", "|+\n", "|2\n", ">-\n", "| # c\n", "# c\n", " # c\n", "#", "&a ", "*a", "*a ", "&a\n",
    "!!str ", "!!int ", "!x ", "! ", "!!map ", "!<tag:yaml.org,2002:str> ", "<<: ", "<<: *a\n", "%YAML 1.2\n", "%TAG ! !\n", "---\n",
    "--- ", "...\n", '"', "'", "''", '""', "\\", "\\n", "\\\n", '\\"', "\\x26", "\\ud83d\\ude00", "\\u0041", "\\ud83d", "\\/", "\\e",
    "\t", "\t\n", " \t", "\n\t", "\x01", "\x7f", "\x00",
)  # fmt: skip
BREAKS = (
    "\n",
    "\n",
    "\n",
    "\n",
    "\n\n",
    "\n \n",
    "\r",
    "\r\n",
    "\x85",
    "\u2028",
    "\u2029",
    "\n#c\n",
    "\n  #c\n",
    " \n",
)
ESCAPES = (
    "\\n",
    "\\t",
    '\\"',
    "\\\\",
    "\\x41",
    "\\u00e9",
    "\\U0001F600",
    "\\ud83d\\ude00",
    "\\/",
    "\\ ",
    "\\x26",
    "\\0",
    "\\e",
)
DEEP_UNITS = (
    "- ", "? ", ": ", "[", "{", "{a: ", "[a: ", "{? ", "[? ", '{"a":', "- &a ", "- !!seq ", "-  ", "? - ", "- ? ", "? ? ", ": : ", "- : ",
    "-\t", "?\t", "[[", "{[", "[{", "['a',", "a: ", "- [", "? {", "&a [", "- a: ", "!x - ", "-\n", "?\n", "- - ", ">", "|", "'", '"', "*a ",
    "- # c\n", "[ # c\n", "{a:\n", "\u2028- ", "\x85 - ", "-\r", "-\xa0",
)  # fmt: skip


def hostile(seed: int) -> str:
    """The text for a seed: always the same."""
    rng = random.Random(seed)
    return rng.choices((soup, written, dumped, deep), weights=(12, 60, 25, 3))[0](rng)


def soup(rng: random.Random) -> str:
    """Tokens in any order."""
    parts = []
    for _ in range(rng.randint(1, rng.choice((4, 12, 40)))):
        roll = rng.random()
        if roll < 0.35:
            parts.append(rng.choice(rng.choice((TAME, WILD))))
        elif roll < 0.7:
            parts.append(rng.choice(INDICATORS))
        elif roll < 0.9:
            parts.append(rng.choice(BREAKS) + " " * rng.choice((0, 0, 1, 2, 2, 3, 4, 6)))
        else:
            parts.append(" " * rng.randint(1, 3))
    return "".join(parts)


def written(rng: random.Random) -> str:
    """A document in random styles, as people write them or nearly so."""
    text = Writer(rng, wild=rng.choice((0.0, 0.02, 0.2))).document()
    return damaged(rng, text) if rng.random() < 0.4 else text


def dumped(rng: random.Random) -> str:
    """A document as PyYAML writes it."""
    text = yaml.dump(
        {_text(rng): _value(rng, rng.randint(1, 4)) for _ in range(rng.randint(1, 3))},
        Dumper=yaml.CSafeDumper,
        default_flow_style=rng.choice((False, False, None, True)),
        width=rng.choice((1, 10, 20, 40, 80, 1000)),
        indent=rng.choice((None, 2, 4, 7)),
        allow_unicode=rng.random() < 0.5,
        default_style=rng.choice((None,) * 12 + ('"', "'", "|", ">")),
        explicit_start=rng.random() < 0.1,
        sort_keys=False,
    )
    return damaged(rng, text) if rng.random() < 0.3 else text


def damaged(rng: random.Random, text: str) -> str:
    """The text with a few insertions, deletions and repetitions."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(text) + 1)
        roll = rng.random()
        if roll < 0.4:
            text = text[:at] + rng.choice(rng.choice((TAME, WILD, INDICATORS, BREAKS))) + text[at:]
        elif roll < 0.8:
            text = text[:at] + text[at + rng.randint(1, 3) :]
        else:
            text = text[:at] + text[at : at + 20] + text[at:]
    if rng.random() < 0.1:
        text = text.replace("\n", rng.choice(("\r\n", "\r")))
    return text if rng.random() < 0.8 else text.rstrip("\n")


def _value(rng: random.Random, depth: int) -> Any:
    roll = rng.random()
    if depth and roll < 0.4:
        return {_text(rng): _value(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    if depth and roll < 0.65:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    return rng.choice(
        (None, True, False, 0, 1, -5, 2.5, 1e30, 10**25, "", _text(rng), _text(rng), _text(rng), _text(rng))
    )


def _text(rng: random.Random) -> str:
    joints = (" ", " ", " ", "\n", "\n\n", "  ", " \n", "\n ", ": ", " #", "")
    return "".join(
        rng.choice(PROSE if rng.random() < 0.9 else WILD) + rng.choice(joints)
        for _ in range(rng.choice((1, 1, 2, 5, 15)))
    )


class Writer:
    """Writes documents whose words are wild with the probability given; otherwise nearly always well formed."""

    def __init__(self, rng: random.Random, wild: float) -> None:
        self.rng = rng
        self.wild = wild

    def document(self) -> str:
        rng = self.rng
        text = self.node(0, rng.randint(1, 4))
        if rng.random() < 0.1:
            text = rng.choice(("---\n", "# c\n---\n", "--- ", "%YAML 1.2\n---\n", "\ufeff", "\n\n", "# c\n")) + text
        return text

    def odd(self, chance: float = 1.0) -> bool:
        return self.rng.random() < self.wild * chance

    def word(self, *, prose: bool = False) -> str:
        return self.rng.choice(WILD if self.odd() else PROSE if prose else TAME)

    def node(self, indent: int, depth: int) -> str:
        """A block node at `indent`, with its line feed."""
        if depth <= 0 or self.rng.random() < 0.05:
            return " " * indent + self.scalar(indent + 1)
        return self.sequence(indent, depth) if self.rng.random() < 0.45 else self.mapping(indent, depth)

    def sequence(self, indent: int, depth: int) -> str:
        rng, pad, lines = self.rng, " " * indent, ""
        step = rng.choice((1, 2, 2, 2, 4))
        for _ in range(rng.randint(1, 4)):
            inner = self.node(indent + step, depth - 1) if rng.random() < 0.5 else ""
            if inner and step > 1 and rng.random() < 0.7:
                lines += f"{pad}-{' ' * (step - 1)}{inner[indent + step :]}"
            elif inner:
                lines += f"{pad}-\n{inner}"
            else:
                lines += f"{pad}-{' ' * rng.choice((1, 1, 1, 2, 3))}{self.scalar(indent)}"
        return lines

    def mapping(self, indent: int, depth: int) -> str:
        rng, pad, lines = self.rng, " " * indent, ""
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.5:
                inner = self.node(indent + rng.choice((0, 1, 2, 2, 2, 4)), depth - 1)
                lines += f"{pad}{self.key()}:{rng.choice(('', '', ' ', ' # c'))}\n{inner}"
            else:
                lines += f"{pad}{self.key()}{rng.choice((': ', ': ', ': ', ':  ', ' : '))}{self.scalar(indent)}"
            if rng.random() < 0.1:
                lines += rng.choice(("\n", "# c\n", f"{pad}# c\n", "  \n"))
        return lines

    def key(self) -> str:
        rng = self.rng
        if self.odd():
            odd = (
                "010",
                "0x1F",
                "-1",
                "+1",
                "1_0",
                "1.5",
                "true",
                "null",
                "~",
                "on",
                "<<",
                "",
                "0",
                "-0",
                "? a",
                "*a",
                "[a]",
                "&a b",
            )
            return rng.choice(odd)
        roll = rng.random()
        if roll < 0.75:
            return (
                rng.choice("abcdefghijklmnop")
                + rng.choice("qrstuvwxyz")
                + rng.choice(("", "1", "_x", " y", "-z", ".w", "_1", "/{id}", "?", "#x"))
            )
        if roll < 0.85:
            return str(rng.choice((200, 201, 400, 404, 500)))
        quote = rng.choice("'\"")
        return f"{quote}{rng.choice(('k', 'a b', '1', 'a: b', '#', '200', 'x' * rng.choice((5, 1019, 1023, 1024, 1025))))}{quote}"

    def scalar(self, indent: int) -> str:
        """A value with its line feed, on one line or several, those indented beyond `indent`."""
        rng = self.rng
        roll = rng.random()
        if self.odd():
            return rng.choice(("&a ", "!x ", "!!str ", "&a !x ", "*a", "? ", "- ")) + self.scalar(indent)
        if self.odd():
            return f"{rng.choice(WILD)}\n"
        comment = rng.choice(("", "", "", "", " # c", "  #c", "#c" if self.odd() else ""))
        if roll < 0.45:
            return f"{self.plain(indent)}{comment}\n"
        if roll < 0.65:
            return f"{self.quoted(indent)}{comment}\n"
        if roll < 0.8:
            return f"{self.flow(indent, 3)}{comment}\n"
        if roll < 0.85:
            return "\n"
        return self.block(indent)

    def block(self, indent: int) -> str:
        rng = self.rng
        pad = " " * (indent + rng.choice((1, 2, 2, 4)))
        number = str(len(pad) - indent) if rng.random() < 0.2 else rng.choice("123") if self.odd() else ""
        header = rng.choice("|>") + number + rng.choice(("", "", "-", "+")) + rng.choice(("", "", "", " ", " # c"))
        lines = []
        for _ in range(rng.choice((0, 1, 2, 4, 6))):
            line = (
                pad
                + rng.choice(("", "", "", "  ", "- ", "\t" if self.odd() else ""))
                + self.plain(indent, prose=True).replace("\n", " ")
            )
            if rng.random() < 0.2:
                line = rng.choice(("", "", pad, " " * rng.randint(0, 6)))
            elif self.odd():
                line = rng.choice((pad + "\t", "\t", "x", pad[1:] + "x"))
            lines.append(line + "\n")
        return f"{header}\n{''.join(lines)}" + "\n" * rng.choice((0, 0, 0, 1, 2))

    def plain(self, indent: int, *, prose: bool = False) -> str:
        rng = self.rng
        text = (
            rng.choice(("a", "bc", "x", "The", "1", "~", "true", "2.5", "x:y")) if rng.random() < 0.95 else self.word()
        )
        for _ in range(rng.choice((0, 0, 0, 1, 2, 5, 12))):
            breaks = ("\n" + " " * (indent + rng.randint(0 if self.odd() else 1, 3)), "\n\n" + " " * (indent + 1))
            joint = rng.choice((" ", "  ", "\t" if self.odd() else " ", " ", *breaks))
            text += joint + self.word(prose=prose)
        return text

    def quoted(self, indent: int) -> str:
        rng = self.rng
        if rng.random() < 0.4:
            return "'" + self.plain(indent, prose=True).replace("'", "''") + "'"
        pad = " " * (indent + 1)
        joints = (" ", "", " ", f"\\\n{pad}", f"\n{pad} ", f" \\\n{pad}\\ ", f"\n\n{pad}", f" \n{pad}", f"\\\n\n{pad}")
        parts = [
            rng.choice(ESCAPES) if rng.random() < 0.3 else self.word(prose=True).replace('"', "").replace("\\", "")
            for _ in range(rng.randint(0, 6))
        ]
        return '"' + "".join(part + rng.choice(joints) for part in parts) + '"'

    def flow(self, indent: int, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            if self.odd():
                return rng.choice((*WILD, "", "-", "- a", ":x", "?y", "|", ">", "a?", "a #c", "*a", "&a b"))
            return rng.choice(
                (
                    "x",
                    "1",
                    "x y",
                    "http://x.y/z",
                    "a:b",
                    "-1",
                    "~",
                    '"q, r"',
                    "'s: t'",
                    '"\\""',
                    "''",
                    "it is",
                    "é",
                    "$ref",
                    "x-y",
                )
            )
        gap = (
            ("", "", " ", " ", "\n" + " " * (indent + 1), "\n", " # c\n  ", "\t") if self.odd(3) else ("", "", "", " ")
        )
        items = []
        is_list = rng.random() < 0.5
        for _ in range(rng.randint(0, 4)):
            value = self.flow(indent, depth - 1)
            if not is_list or rng.random() < 0.1:
                key = rng.choice(("a", "b", "c", "d e", '"f"', "'g'", "1", "200", '"#/h"'))
                if self.odd():
                    key = rng.choice(("true", "", "? f", "[x]", "i\n j", '"k\n l"', "x" * 1023, "010", ":y"))
                adjacent = key[:1] in ("'", '"') and rng.random() < 0.3
                joint = rng.choice((":", " : ", "", ":  ", "\n: ")) if self.odd(3) else ":" if adjacent else ": "
                value = f"{key}{joint}{value}"
            items.append(rng.choice(gap) + value + rng.choice(gap))
        comma = f",\n{' ' * (indent + 2)}" if rng.random() < 0.2 else ", " if rng.random() < 0.7 else ","
        body = comma.join(items) + (rng.choice((",", ", ")) if rng.random() < 0.1 else "")
        return f"[{body}]" if is_list else "{" + body + "}"


def deep(rng: random.Random) -> str:
    """Nesting without end: one unit or a few, over and over, perhaps with indentation that grows."""
    units = [rng.choice(DEEP_UNITS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    count = rng.choice((10, 100, 300, 1000, 5000, 20000))
    shape = rng.random()
    if shape < 0.4:
        return "".join(units[i % len(units)] for i in range(count)) + rng.choice(("", "a", "a\n", "x: y\n"))
    if shape < 0.7:
        grow = rng.choice((1, 1, 2))
        blank = rng.choice((" ", " ", " ", "\t"))
        key = rng.choice(("a:", "-", "- a:", "? a", "'q':", "a: &b", "a:\n{pad}-", "- - a:", "? -", "[", "{"))
        newline = rng.choice(("\n", "\n", "\r", "\r\n", "\x85", "\u2028"))
        pads = [blank * (i * grow) for i in range(min(count, 1500))]
        return "".join(f"{pad}{key.replace('{pad}', pad)}{newline}" for pad in pads)
    if shape < 0.9:
        opening = "".join(rng.choice(("[", "{a: ", "[a: ", "{'b':", "[ ", "{ ? ")) for _ in range(count))
        closing = opening.translate({0x5B: "]", 0x7B: "}"})
        return opening + "1" + "".join(char for char in reversed(closing) if char in "]}")
    return "".join(
        " " * rng.randint(0, 40) + rng.choice(DEEP_UNITS) * rng.randint(1, 400) + "\n"
        for _ in range(rng.randint(1, 30))
    )
