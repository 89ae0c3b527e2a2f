"""Which files may be read together: those that can do nothing to each other, by the look of them.

A file is inert if its top only imports, defines, and names plain values. Executed beside others it can change nothing
that they see: it calls nothing but a few functions of the standard library, and assigns to names of its own only.
Whatever is in doubt is not inert, and is executed in a process of its own; so is every file of a group that fails.
"""

from __future__ import annotations

import _ast as ast
import sys

_ERRORS = frozenset({"Exception", "ImportError", "KeyError", "ModuleNotFoundError", "OSError", "RuntimeError"})
_ERRORS |= {"TypeError", "ValueError"}
_MAKERS = frozenset({"dict", "float", "frozenset", "int", "list", "set", "str", "tuple"})
_WRAPPERS = frozenset({"classmethod", "property", "staticmethod"})
BUILTINS = _ERRORS | _MAKERS | _WRAPPERS | {"bool", "bytes", "complex", "object", "type", "__name__", "__file__"}
_FIELD, _DATACLASS = "dataclasses.field", "dataclasses.dataclass"
_MAY_CALL = _MAKERS | {
    *("datetime.timedelta", "decimal.Decimal", "enum.auto", "logging.getLogger", "pathlib.Path", "pathlib.PurePath"),
    *("re.compile", "typing.TypeVar"),
}
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_ENUMS = frozenset({"enum.Enum", "enum.Flag", "enum.IntEnum", "enum.IntFlag", "enum.StrEnum"})
_METHODS = frozenset({"__init__", "__post_init__", "__repr__", "__str__", "__eq__", "__hash__", "__bool__", "__len__"})
_METHODS |= {"__lt__", "__le__", "__gt__", "__ge__", "__iter__", "__next__", "__contains__", "__getitem__", "__call__"}
_METHODS |= {"__enter__", "__exit__", "__add__", "__sub__", "__mul__", "__int__", "__float__"}
"""What nothing asks a class for, only its instances; and there are none while the file is read."""
_SUBSCRIPTS = ("typing.", "collections.", "os.environ", "dataclasses.InitVar")
NOT_QUIET = frozenset({"_inside", "__main__", "antigravity", "ctypes", "idlelib", "readline", "test", "this"})
NOT_QUIET |= {"turtledemo"}
"""Modules that do something when they are imported, or when something of them is named."""
_OPERATORS = (ast.BitOr, ast.Add, ast.Sub, ast.Div)


class _Doubt(Exception):
    """Something that might do more than it should."""


def is_inert(tree: ast.Module) -> bool:
    """Whether executing the file does nothing but name things."""
    try:
        look = _Look()
        for statement in tree.body:
            look.statement(statement)
    except (_Doubt, RecursionError):
        return False
    return True


class _Look:
    def __init__(self) -> None:
        self._imported: dict[str, str] = {}
        self._own: set[str] = set()
        self._plain: set[str] = set()
        """Own names for plain values: nothing of the file is run by whoever uses them."""

    def statement(self, node: ast.stmt) -> None:
        """One statement of the top of a file, or of the body of a class."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            self._assignment(node)
        elif isinstance(node, ast.Try) and not node.finalbody and not node.orelse:
            self._attempt(node)
        elif isinstance(node, ast.If) and not node.orelse and _never(node.test, self._imported):
            return
        elif not (isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))):
            raise _Doubt

    def _assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        self._values(node.value, node.annotation if isinstance(node, ast.AnnAssign) else None)
        is_plain = node.value is not None and self._is_plain(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if not isinstance(target, ast.Name):
                raise _Doubt
            self._bind(target.id)
            if is_plain:
                self._plain.add(target.id)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom) and (node.level or any(alias.name == "*" for alias in node.names)):
            raise _Doubt
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                name, full = alias.asname or alias.name, f"{node.module}.{alias.name}"
            else:
                name = alias.asname or alias.name.split(".")[0]
                full = alias.name if alias.asname else name
            if not NOT_QUIET.isdisjoint(f"{full}.{alias.name}".split(".")):
                raise _Doubt
            self._bind(name)
            self._own.discard(name)
            self._imported[name] = full

    def _bind(self, name: str) -> None:
        # Dunders have meanings of their own, and a name bound twice is not worth following.
        if name in self._imported or name in BUILTINS or (name.startswith("__") and name.endswith("__")):
            raise _Doubt
        self._own.add(name)
        self._plain.discard(name)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._decorators(node.decorator_list)
        self._signature(node)
        self._bind(node.name)

    def _signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self._values(*arguments.defaults, *arguments.kw_defaults, node.returns)
        self._values(*(argument.annotation for argument in every if argument is not None))

    def _class(self, node: ast.ClassDef) -> None:
        bases = {self._full(base) for base in node.bases}
        # Deriving runs code: of the file, if the base is of the file, or if the base calls what the body defines.
        if node.keywords:
            raise _Doubt
        if bases & _ENUMS:
            self._enum(node)
        elif bases <= _ERRORS | {"object"}:
            self._dataclass(node.decorator_list)
            inner = _Look()
            inner._imported, inner._own, inner._plain = dict(self._imported), set(self._own), set(self._plain)
            for statement in node.body:
                inner._member(statement)
        else:
            raise _Doubt
        self._bind(node.name)

    def _member(self, node: ast.stmt) -> None:
        """A statement in the body of a class."""
        if isinstance(node, ast.FunctionDef) and node.name in _METHODS and not node.decorator_list:
            self._signature(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and self._is_field(node.value):
            self._values(*(keyword.value for keyword in node.value.keywords))
            self._assignment(ast.AnnAssign(node.target, node.annotation, simple=1))
        else:
            self.statement(node)

    def _is_field(self, node: ast.Call) -> bool:
        named = all(keyword.arg is not None for keyword in node.keywords)
        return self._full(node.func) == _FIELD and named and not node.args

    def _enum(self, node: ast.ClassDef) -> None:
        """Names for constants: an Enum asks its body for more than any other class does."""
        if len(node.bases) != 1 or node.decorator_list:
            raise _Doubt
        for statement in node.body:
            if isinstance(statement, ast.Pass) or (
                isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            ):
                continue
            if not isinstance(statement, ast.Assign) or not self._is_member(statement.value):
                raise _Doubt
            for target in statement.targets:
                if not isinstance(target, ast.Name) or target.id.startswith("_"):
                    raise _Doubt

    def _is_member(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._full(node.func) == "enum.auto" and not node.args and not node.keywords
        if isinstance(node, ast.Tuple):
            return all(isinstance(part, ast.Constant) for part in node.elts)
        return isinstance(node, ast.Constant)

    def _dataclass(self, nodes: list[ast.expr]) -> None:
        """The one decorator that a class may have; and only a class of the file may have it."""
        for node in nodes:
            if self._full(node.func if isinstance(node, ast.Call) else node) != _DATACLASS or len(nodes) > 1:
                raise _Doubt
            self._settings(node)

    def _decorators(self, nodes: list[ast.expr]) -> None:
        """Those of a function: none that runs it, and no two that would run each other."""
        names = [self._full(node.func if isinstance(node, ast.Call) else node) for node in nodes]
        wrappers = [name for name in names if name in _WRAPPERS]
        if len(wrappers) > 1 or not set(names) <= _WRAPPERS | _CACHES:
            raise _Doubt
        for name, node in zip(names, nodes, strict=True):
            if isinstance(node, ast.Call) and name in _WRAPPERS:
                raise _Doubt
            self._settings(node)

    def _settings(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            named = all(keyword.arg is not None for keyword in node.keywords)
            if not named or not all(isinstance(value, ast.Constant) for value in values):
                raise _Doubt

    def _attempt(self, node: ast.Try) -> None:
        for handler in node.handlers:
            if handler.name is not None or not isinstance(handler.type, ast.Name) or handler.type.id not in _ERRORS:
                raise _Doubt
        if not all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body):
            raise _Doubt
        for statement in node.body:
            self.statement(statement)
        for handler in node.handlers:
            for statement in handler.body:
                is_none = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
                names = statement.targets if isinstance(statement, ast.Assign) else []
                if not is_none or not all(isinstance(name, ast.Name) and name.id in self._imported for name in names):
                    raise _Doubt

    def _full(self, node: ast.expr) -> str | None:
        """The dotted name of something imported or built in; None for anything else."""
        if isinstance(node, ast.Name):
            built_in = node.id if node.id in BUILTINS and node.id not in self._own else None
            return self._imported.get(node.id, built_in)
        if isinstance(node, ast.Attribute):
            front = self._full(node.value)
            return None if front is None else f"{front}.{node.attr}"
        return None

    def _values(self, *nodes: ast.expr | None) -> None:
        """Expressions that nothing of the file is run by."""
        for node in nodes:
            if node is None or isinstance(node, ast.Constant):
                continue
            if isinstance(node, ast.Name):
                if self._full(node) is None and node.id not in self._own:
                    raise _Doubt
            elif isinstance(node, ast.List | ast.Tuple | ast.Set):
                self._values(*node.elts)
            elif isinstance(node, ast.Dict):
                if None in node.keys:
                    raise _Doubt
                self._values(*node.keys, *node.values)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
                self._alternatives(node)
            elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call):
                if not self._is_plain(node):
                    raise _Doubt
            elif isinstance(node, ast.Attribute):
                if self._full(node) is None:
                    raise _Doubt
            elif isinstance(node, ast.Subscript):
                name = self._full(node.value)
                if name is None or not (name in BUILTINS or name.startswith(_SUBSCRIPTS)):
                    raise _Doubt
                self._values(node.slice)
            elif not isinstance(node, ast.Lambda):
                raise _Doubt

    def _alternatives(self, node: ast.BinOp) -> None:
        """`int | None`: types of Python, or of the file, but nothing that may have an operator of its own."""
        for part in (node.left, node.right):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                self._alternatives(part)
            elif isinstance(part, ast.Subscript):
                self._values(part)
            elif not (self._is_plain(part) or (isinstance(part, ast.Name) and self._full(part) in BUILTINS)):
                raise _Doubt

    def _is_plain(self, node: ast.expr) -> bool:
        """A value of Python itself, which runs nothing of the file whatever is done with it."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            self._values(node)
            return True
        if isinstance(node, ast.UnaryOp):
            return self._is_plain(node.operand)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _OPERATORS) and self._is_plain(node.left) and self._is_plain(node.right)
        if isinstance(node, ast.Call):
            return self._is_plain_call(node)
        if isinstance(node, ast.Name) and (node.id in self._plain or node.id in ("__name__", "__file__")):
            return True
        name = self._full(node)
        return name is not None and "." in name and name.split(".")[0] in sys.stdlib_module_names

    def _is_plain_call(self, node: ast.Call) -> bool:
        name = self._full(node.func)
        if name not in _MAY_CALL or any(keyword.arg is None for keyword in node.keywords):
            return False
        named = [keyword.value for keyword in node.keywords]
        if name == "dict":
            # It asks what it is given for `keys`, but values by name it only keeps.
            self._values(*named)
            named = []
        return all(self._is_plain(value) for value in (*node.args, *named))


def _never(test: ast.expr, imported: dict[str, str]) -> bool:
    """`__name__ == "__main__"` and `TYPE_CHECKING`: what is below is not executed."""
    if isinstance(test, ast.Name):
        return imported.get(test.id) == "typing.TYPE_CHECKING"
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__":
        value = test.comparators[0]
        is_main = isinstance(value, ast.Constant) and value.value == "__main__"
        return len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq) and is_main
    return False
