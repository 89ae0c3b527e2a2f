import datetime as dt
import functools
import subprocess
import sys
from typing import Any

import pytest

from toolyard.model.bindings import PythonBinding
from toolyard.model.call import ToolContext
from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Effects, Tool
from toolyard.registry.functions import ToolOptions as ToolSpec, function_tool, spec_of, tool, tool_from
from toolyard.schema.strict import StrictModel


class Answer(StrictModel):
    total: int


def add(a: int, b: int = 1) -> Answer:
    """Add two numbers.

    Args:
        a: The first.
    """
    return Answer(total=a + b)


class HTTPClient:
    def __call__(self, url: str) -> str:
        return url

    @tool(name="fetch", tags=["net"])
    def get(self, url: str) -> str:
        """Get it."""
        return url

    @tool
    @classmethod
    def of(cls, url: str) -> str:
        return cls.__name__ + url

    @tool
    @staticmethod
    def quote(url: str) -> str:
        return url


def binding_of(made: Tool) -> PythonBinding:
    assert isinstance(made.binding, PythonBinding)
    return made.binding


def test_a_function_says_all_that_a_tool_needs() -> None:
    made = function_tool(add, namespace="calc")

    assert made.qualified_name == "calc::add"
    assert made.description == "Add two numbers."
    assert made.parameters["properties"]["a"] == {"type": "integer", "description": "The first."}
    assert made.output_parameters["properties"] == {"total": {"type": "integer"}}
    assert (made.effects, made.version, made.tags, made.metadata) == (Effects.UNKNOWN, None, (), {})


def test_the_binding_holds_what_a_call_needs() -> None:
    async def later(on: dt.date, context: ToolContext) -> Answer:
        return Answer(total=on.year)

    plain, typed = binding_of(function_tool(add, namespace="n")), binding_of(function_tool(later, namespace="n"))

    assert plain.callable is add
    assert (plain.prepare, plain.integers, plain.returns) == (None, ("a", "b"), Answer)
    assert (plain.is_async, plain.takes_ctx) == (False, False)
    assert plain.finish is not None
    assert plain.finish(add(1)) == {"total": 2}
    assert (typed.is_async, typed.takes_ctx, typed.integers) == (True, True, ())
    assert typed.prepare is not None
    assert typed.prepare({"on": "2024-01-01"}) == ((), {"on": dt.date(2024, 1, 1)})


async def test_a_context_of_any_name_is_passed_as_ctx() -> None:
    async def later(context: ToolContext) -> str | None:
        return context.session_id

    made = function_tool(later, namespace="n")

    assert await binding_of(made).callable(ctx=ToolContext(tool=made, session_id="s")) == "s"


def test_given_options_replace_derived_ones() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}
    made = function_tool(
        add,
        namespace="calc",
        name="plus",
        description="Sum.",
        parameters=schema,
        output_parameters={"type": "object"},
        tags=["maths"],
        aliases=["sum"],
        effects=Effects.READ,
        version="1.2",
        metadata={"owner": "me"},
    )

    assert made.to_dict() == {
        "name": "plus",
        "namespace": "calc",
        "description": "Sum.",
        "parameters": schema,
        "output_parameters": {"type": "object"},
        "metadata": {"owner": "me"},
        "version": "1.2",
        "tags": ["maths"],
        "aliases": ["sum"],
        "effects": "read",
    }


def test_a_hand_written_schema_allows_a_signature_without_annotations() -> None:
    async def run(*args: Any, missing: "Nowhere" = None, ctx: Any, **kwargs: Any) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Run it."""
        return ""

    made = function_tool(run, namespace="n", parameters={"type": "object"})

    assert made.description == "Run it."
    assert (binding_of(made).prepare, binding_of(made).is_async, binding_of(made).takes_ctx) == (None, True, True)
    with pytest.raises(DefinitionError):
        function_tool(run, namespace="n")


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (add, "add"),
        (functools.partial(functools.partial(add, 1), b=2), "add"),
        (HTTPClient(), "http_client"),
        (HTTPClient().get, "get"),
        (HTTPClient, "HTTPClient"),
        (functools.lru_cache(add), "add"),
    ],
)
def test_a_tool_is_called_as_its_function(fn: Any, name: str) -> None:
    assert function_tool(fn, namespace="n").name == name


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match=r"<lambda> has no name; pass name="):
        function_tool(lambda x: x, namespace="n")
    assert function_tool(lambda x: x, namespace="n", name="same").name == "same"


def test_a_marked_function_is_the_same_function() -> None:
    def plain(x: int) -> int:
        """Doc."""
        return x + 1

    before = dict(vars(plain))

    assert tool(plain) is plain
    assert tool()(plain) is plain
    assert tool(name="other")(plain) is plain
    assert plain(1) == 2
    assert vars(plain).keys() - before.keys() == {"__toolyard__"}


def test_the_mark_holds_the_options_of_the_decorator() -> None:
    @tool(name="n", namespace="ns", tags="one", effects=Effects.WRITE, metadata={"k": 1})
    def marked() -> None: ...

    assert spec_of(marked) == ToolSpec(
        name="n", namespace="ns", tags=("one",), effects=Effects.WRITE, metadata={"k": 1}
    )
    assert spec_of(add) is None
    assert spec_of(object()) is None


def test_methods_carry_the_mark_of_their_function() -> None:
    client = HTTPClient()

    assert spec_of(client.get) == ToolSpec(name="fetch", tags=("net",))
    assert spec_of(HTTPClient.get) == spec_of(client.get)
    assert spec_of(client.of) == spec_of(client.quote) == ToolSpec()
    assert client.of("x") == "HTTPClientx"
    assert tool_from(client.get, "web").to_dict()["tags"] == ["net"]
    assert tool_from(client.of, "web").parameters["required"] == ["url"]


def test_wrappers_and_partials_keep_the_mark() -> None:
    @tool(name="marked")
    def marked(x: int, y: int) -> int:
        return x + y

    @functools.wraps(marked)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return marked(*args, **kwargs)

    assert tool_from(wrapper, "n").name == "marked"
    assert tool_from(functools.partial(marked, y=1), "n").name == "marked"
    assert list(tool_from(functools.partial(marked, y=1), "n").parameters["properties"]) == ["x"]


def test_marks_are_not_inherited_by_subclasses_or_instances() -> None:
    @tool(name="make")
    class Maker:
        def __call__(self) -> None: ...

    class Special(Maker):
        pass

    assert spec_of(Maker) == ToolSpec(name="make")
    assert spec_of(Special) is None
    assert spec_of(Maker()) is None


def test_the_namespace_and_name_of_the_mark_win() -> None:
    @tool(namespace="own")
    def one() -> None: ...

    @tool(name="named")
    def two() -> None: ...

    assert tool_from(one, "given").qualified_name == "own::one"
    assert tool_from(two, "given").qualified_name == "given::named"
    assert tool_from(add, "given").qualified_name == "given::add"


def test_a_function_that_returns_at_once_may_say_so() -> None:
    @tool(blocking=False)
    def quick() -> None: ...

    assert binding_of(function_tool(add, namespace="n")).blocking is True
    assert binding_of(function_tool(add, namespace="n", blocking=False)).blocking is False
    assert binding_of(tool_from(quick, "n")).blocking is False
    assert binding_of(tool_from(add, "n")).blocking is True
    assert function_tool(add, namespace="n") == function_tool(add, namespace="n", blocking=False)


def test_bad_annotations_are_reported_when_the_tool_is_made() -> None:
    @tool
    def bad(x: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
        ...

    with pytest.raises(DefinitionError, match=r"the annotation 'Nowhere' of parameter 'x' cannot be resolved"):
        tool_from(bad, "n")


@pytest.mark.parametrize("target", [len, HTTPClient().get, int])
def test_an_object_that_cannot_be_marked_is_refused_with_a_hint_to_function_tool(target: Any) -> None:
    with pytest.raises(DefinitionError, match=r"cannot be marked with @tool; make the tool with function_tool"):
        tool(target)


def test_options_are_passed_by_name() -> None:
    wrong: Any = tool

    with pytest.raises(DefinitionError, match=r"write @tool\(name='search'\)"):
        wrong("search")


@pytest.mark.process
def test_marking_does_not_import_pydantic() -> None:
    program = "import sys, toolyard.registry.functions; print('pydantic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_an_option_that_is_none_is_refused_unless_it_is_a_name():
    @tool(effects=None)
    def ping():
        """Ping."""

    with pytest.raises(DefinitionError, match="effects must be one of"):
        tool_from(ping, "n")

    @tool(name=None, namespace=None)
    def pong():
        """Pong."""

    assert tool_from(pong, "n").qualified_name == "n::pong"
