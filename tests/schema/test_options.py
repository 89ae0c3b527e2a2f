"""One declaration: what is read, what is refused and how, and the schema that says the same."""

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given as each, strategies as st
from msgspec import UNSET, Meta, UnsetType

from toolyard import (
    ConfigError,
    FileToolLoader,
    MCPToolLoader,
    PythonToolLoader,
    ReplayToolEngine,
    RESTToolLoader,
    ScriptToolLoader,
    SqliteStore,
    ToolRegistry,
    Toolyard,
)
from toolyard.model.tool import Effects
from toolyard.plugins import get_tool_loader
from toolyard.schema.options import (
    Text,
    Variable,
    check_fields,
    locate_file,
    option_type,
    read_option,
    read_options,
    read_value,
)
from toolyard.schema.options_schema import options_schema
from toolyard.scripts import append_tool_manifest, load_tool_manifest_allowlist, load_tools


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """What is inside."""

    level: Annotated[Literal["low", "high"], Meta(description="How much.")] = "low"
    name: Annotated[Text, Meta(description="What it is called.")]


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    """All there is."""

    port: Annotated[int, Meta(ge=0, le=65535, description="Where to listen.")] = 8000
    rate: Annotated[float, Meta(gt=0, description="How fast.")] = 5.0
    ttl: Annotated[float | None, Meta(gt=0, description="For how long.")] = None
    on: bool = False
    globs: Annotated[tuple[Text, ...], Meta(min_length=1, extra={"one": True})] = ("*",)
    domains: Annotated[tuple[Text, ...], Meta(extra={"split": ","})] = ()
    effects: tuple[Effects, ...] = ()
    limits: dict[str, Annotated[int, Meta(ge=1)]] = {}
    inner: Inner | UnsetType = UNSET
    file: Path | None = None
    either: bool | Inner = False
    anything: Any = None


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"port": 80.0}, {"port": 80}),
        ({"port": Variable("80"), "on": Variable("true")}, {"port": 80, "on": True}),
        ({"rate": 3}, {"rate": 3.0}),
        ({"ttl": None}, {"ttl": None}),
        ({"globs": "a"}, {"globs": ("a",)}),
        ({"globs": ["a", "b"]}, {"globs": ("a", "b")}),
        ({"domains": " core ,, web"}, {"domains": ("core", "web")}),
        ({"domains": ""}, {"domains": ()}),
        ({"effects": ["read"]}, {"effects": (Effects.READ,)}),
        ({"limits": {"a": Variable("3")}}, {"limits": {"a": 3}}),
        ({"inner": {"name": Variable("7")}}, {"inner": Inner(name="7")}),
        ({"either": True}, {"either": True}),
        ({"either": {"name": "x"}}, {"either": Inner(name="x")}),
        ({"file": "a/b"}, {"file": Path("/base/a/b")}),
        ({"file": "/a/b"}, {"file": Path("/a/b")}),
        ({"file": "~/a"}, {"file": Path("~/a")}),
        ({"anything": {"a": [1]}}, {"anything": {"a": [1]}}),
    ],
)
def test_values_are_read_by_the_type_of_their_field(given, read):
    made = read_options(Outer, given, "here", base=Path("/base"))
    assert made == Outer(**read)
    for name, value in read.items():
        assert type(getattr(made, name)) is type(value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "here: must be a mapping, not list"),
        ({"prot": 1}, "here: unknown key 'prot'; did you mean 'port'?"),
        ({"xyzzy": 1}, "here: unknown key 'xyzzy'; known: port, rate,"),
        ({"port": True}, "here.port: must be a whole number, not boolean"),
        ({"port": 1.5}, "here.port: must be a whole number, not number"),
        ({"port": Variable("x")}, "here.port: must be a whole number, not text"),
        ({"port": -1}, "here.port: must be 0 or more, not -1"),
        ({"port": 65536}, "here.port: must be 65535 or less, not 65536"),
        ({"rate": 0}, "here.rate: must be above 0, not 0"),
        ({"rate": float("inf")}, "here.rate: must be a finite number"),
        ({"rate": 10**400}, "here.rate: must be a finite number"),
        ({"ttl": "x"}, "here.ttl: must be a number, not text"),
        ({"on": 1}, "here.on: must be true or false, not integer"),
        ({"globs": 3}, "here.globs: must be text or a list of text, not integer"),
        ({"globs": []}, "here.globs: must be text or a list of text, not empty"),
        ({"globs": ""}, "here.globs: must be text, not empty"),
        ({"globs": ["a", ""]}, "here.globs[1]: must be text, not empty"),
        ({"effects": ["reed"]}, "here.effects[0]: no such choice 'reed'; did you mean 'read'?"),
        ({"limits": {"a": 0}}, "here.limits.a: must be 1 or more, not 0"),
        ({"inner": {}}, "here.inner: needs 'name': what it is called"),
        ({"inner": {"name": "x", "level": 3}}, "here.inner.level: must be one of low, high; not integer"),
        ({"either": "yes"}, "here.either: must be true or false, or a mapping, not text"),
    ],
)
def test_errors_name_the_place(given, says):
    with pytest.raises(ConfigError) as caught:
        read_options(Outer, given, "here")
    assert str(caught.value).startswith(says)


def test_what_an_error_repeats_is_bounded():
    for given in ({"k" * 100_000: 1}, {"inner": {"name": "x", "level": "l" * 100_000}}, {"port": 10**4000}):
        with pytest.raises(ConfigError) as caught:
            read_options(Outer, given, "here")
        assert len(str(caught.value)) < 400


def test_the_schema_describes_every_key_with_its_limits_and_its_default():
    schema = options_schema(Outer)
    assert schema["description"] == "All there is."
    assert schema["properties"]["port"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 65535,
        "description": "Where to listen.",
        "default": 8000,
    }
    assert schema["properties"]["inner"]["required"] == ["name"]
    assert "required" not in schema


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70000), st.floats(-2, 3), st.sampled_from(["", "a", "read", "low", "x,y"])
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from(["name", "level", "a"]), SCALARS)
)


@each(st.dictionaries(st.sampled_from([*Outer.__struct_fields__, "nonsense"]), VALUES, max_size=3))
def test_the_schema_accepts_what_the_reader_accepts(block):
    try:
        read_options(Outer, block, "here")
        is_read = True
    except ConfigError:
        is_read = False
    assert jsonschema_rs.is_valid(options_schema(Outer), block) == is_read


def test_what_code_gives_is_checked_like_a_config():
    class Made(msgspec.Struct, frozen=True):
        globs: Annotated[tuple[Text, ...], Meta(extra={"one": True})] = ("*",)

        def __post_init__(self):
            check_fields(self, "Made")

    assert Made("a").globs == ("a",)
    with pytest.raises(ConfigError, match=r"Made\.globs: must be text or a list of text, not integer"):
        Made(3)


def test_a_rule_between_keys_is_told_with_the_place_and_is_in_the_schema():
    class Either(msgspec.Struct, frozen=True):
        a: int = 0
        b: int = 0
        schema_rules: ClassVar[dict] = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}

        def __post_init__(self):
            if bool(self.a) == bool(self.b):
                raise ConfigError("give a or b")

    with pytest.raises(ConfigError, match="^here: give a or b$"):
        read_options(Either, {}, "here")
    assert not jsonschema_rs.is_valid(options_schema(Either), {"a": 1, "b": 1})


def test_one_key_can_be_read_at_another_place():
    assert read_option(Outer, "port", 80, "--port") == 80
    with pytest.raises(ConfigError, match="^--port: must be 0 or more"):
        read_option(Outer, "port", -1, "--port")


def test_a_check_sees_the_value_and_its_place():
    def check(value, where):
        raise ConfigError(f"{where}: not {value}")

    with pytest.raises(ConfigError, match="^there: not 3$"):
        read_value(option_type(Annotated[int, Meta(extra={"check": check})]), 3, "there")


def test_files_are_located_each_by_itself():
    assert locate_file(["a", "/b", 3], Path("/x")) == ["/x/a", "/b", 3]


SPEC = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": {"operationId": "a"}}}}
TAKERS = [
    lambda place: FileToolLoader(f"{place}/catalog.json").load(),
    lambda place: RESTToolLoader(f"{place}/spec.json").load(),
    lambda place: PythonToolLoader(f"{place}/functions.py").load(),
    lambda place: ScriptToolLoader(f"{place}/scripts").load(),
    lambda place: get_tool_loader("mcp_config", path=f"{place}/servers.json").load(),
    lambda place: ReplayToolEngine(ToolRegistry(), cassette=f"{place}/tape.jsonl").close(),
    lambda place: RESTToolLoader("spec.json", base_url=f"http://service.example{place}"),
    lambda place: MCPToolLoader(f"http://service.example{place}", namespace="n"),
    lambda place: MCPToolLoader("http://service.example", namespace="n", approved=f"{place}/approved.json"),
    lambda place: SqliteStore(f"{place}/sessions.db").close(),
    lambda place: Toolyard.from_config(f"{place}/catalog.json").close(),
    lambda place: load_tools(f"{place}/scripts", ToolRegistry()),
    lambda place: load_tool_manifest_allowlist(f"{place}/scripts"),
    lambda place: append_tool_manifest("a.py", f"{place}/scripts"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "catalog.json").write_text('[{"name": "a"}]')
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    (tmp_path / "functions.py").write_text("from toolyard import tool\n@tool\ndef a() -> int:\n    return 1\n")
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    (tmp_path / "tape.jsonl").write_text("")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/_manifest.json").write_text('{"allow": []}')
    monkeypatch.setenv("YARD_PLACE", str(tmp_path))


@pytest.mark.parametrize("take", TAKERS)
def test_variables_in_a_path_are_replaced_and_an_unset_one_is_an_error(folder, take):
    take("${YARD_PLACE}")
    with pytest.raises(ConfigError, match="YARD_NOWHERE is not set"):
        take("${YARD_NOWHERE}")


@pytest.mark.parametrize("take", [FileToolLoader, RESTToolLoader, ScriptToolLoader, SqliteStore])
def test_what_is_no_place_is_refused_by_the_name_of_its_option(take):
    with pytest.raises(TypeError, match=r"^(path|spec) must be a path or an address, not list$"):
        take([SPEC])
