"""The quick look at a file before `inert` takes the long one: code that goes straight on and calls nothing.

Most scripts only import modules, name plain values, and define functions. Compiled, the top of such a file is a
handful of instructions, none of which runs anything of the file: no call, no attribute, no operator, no jump, no
class. What has any other instruction, and what a later Python may add, is not straight, and is looked at as a tree.

The instructions are those that this interpreter has made of the text, never some that a file brings along.
"""

from __future__ import annotations

from opcode import EXTENDED_ARG, opmap

from .inert import BUILTINS, NOT_QUIET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

_PLAIN = ("NOP", "RESUME", "EXTENDED_ARG", "POP_TOP", "COPY", "SWAP", "LOAD_CONST", "LOAD_NAME", "STORE_NAME")
_MAKING = ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_APPEND", "MAP_ADD")
_ENDING = ("MAKE_FUNCTION", "IMPORT_NAME", "IMPORT_FROM", "RETURN_VALUE", "RETURN_CONST")
_ALLOWED = frozenset(opmap[name] for name in (*_PLAIN, *_MAKING, *_ENDING) if name in opmap)
_FROM_CONSTANT = frozenset(opmap[name] for name in ("LIST_EXTEND", "SET_UPDATE") if name in opmap)
"""How the compiler writes a list of constants; with anything but a constant before them they are not allowed."""
_CONSTANT, _LOAD, _STORE = opmap["LOAD_CONST"], opmap["LOAD_NAME"], opmap["STORE_NAME"]
_IMPORT, _IMPORTED = opmap["IMPORT_NAME"], opmap["IMPORT_FROM"]


def is_straight(code: CodeType) -> bool:
    """Whether the top of a file only imports, defines, and names plain values, by its instructions."""
    text = code.co_code
    if not set(text[::2]) <= _ALLOWED | _FROM_CONSTANT:
        return False
    names, own = code.co_names, set(BUILTINS)
    argument, before, earlier = 0, (0, 0), (0, 0)
    for operation, low in zip(text[::2], text[1::2], strict=True):
        argument = argument << 8 | low
        if operation == EXTENDED_ARG:
            continue
        if operation == _STORE:
            if not _may_bind(names[argument]):
                return False
            own.add(names[argument])
        elif operation == _LOAD:
            if names[argument] not in own:
                return False
        elif operation == _IMPORT:
            if not _is_import(code, argument, earlier, before):
                return False
        elif operation == _IMPORTED:
            if names[argument] in NOT_QUIET:
                return False
        elif operation in _FROM_CONSTANT and before[0] != _CONSTANT:
            return False
        earlier, before, argument = before, (operation, argument), 0
    return True


def _may_bind(name: str) -> bool:
    # Dunders have meanings of their own; the text at the top of a file is the one that nobody asks for.
    return name == "__doc__" or not (name.startswith("__") and name.endswith("__"))


def _is_import(code: CodeType, argument: int, level: tuple[int, int], names: tuple[int, int]) -> bool:
    """An import by the whole name, of modules that do nothing."""
    if level[0] != _CONSTANT or names[0] != _CONSTANT or code.co_consts[level[1]] != 0:
        return False
    return NOT_QUIET.isdisjoint(code.co_names[argument].split("."))
