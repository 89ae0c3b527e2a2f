"""Domains by name: found in three places, each on its own, and nothing lost in silence."""

import importlib
import sys

import pytest

from toolyard import (
    ConfigError,
    DomainToolLoader,
    DuplicateToolError,
    MalformedSource,
    Tool,
    ToolRegistry,
    get_tool_loader,
)
from toolyard.sources.domains import enabled_domains

GOOD = """
from toolyard import function_tool

def {tool}(city: str) -> str:
    '''Say how it is there.'''
    return f"{tool} in {{city}}"

def load_tools():
    return [function_tool({tool}, namespace="{namespace}")]
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python imports from; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def write(site, name, body):
    path = site.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body)
    importlib.invalidate_caches()


def good(tool="weather", namespace="yard_good"):
    return GOOD.format(tool=tool, namespace=namespace)


def install(site, package, **points):
    """What pip leaves behind of a package with entry points."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[toolyard.domains]\n{lines}")
    importlib.invalidate_caches()


def names(loader):
    return [tool.qualified_name for tool in loader.load()]


def reason(loader):
    (rejected,) = loader.report.rejected
    return rejected.reason


def test_core_is_what_is_enabled_if_nothing_is_said():
    loader = DomainToolLoader()
    assert names(loader) == ["core::echo", "core::calc", "core::time_now"]
    assert loader.namespaces == {"core"}
    assert loader.source == "domains:core"
    assert loader.report.entries == 3 and not loader.report.rewrites and not loader.report.rejected
    assert {tool.source for tool in loader.load()} == {"domains:core"}


def test_it_is_the_loader_called_domains():
    assert names(get_tool_loader("domains")) == names(DomainToolLoader())
    assert names(get_tool_loader("domains", domains=["core"])) == names(DomainToolLoader())


def test_a_domain_of_any_module_is_named_after_the_last_part_of_its_path(site):
    write(site, "yard_pkg.yard_good", good())
    write(site, "yard_alone", good(namespace="yard_alone"))
    registry = ToolRegistry.from_loaders([DomainToolLoader(["yard_pkg.yard_good", "yard_alone", "core"])])
    assert registry.namespaces() == ["core", "yard_alone", "yard_good"]
    assert registry.dispatch("yard_good::weather", {"city": "Bonn"}) == "weather in Bonn"
    assert registry.report.ok and not registry.report.rewrites


@pytest.mark.parametrize("text", ["core,yard_a", " core , yard_a ,", "core,,yard_a,core"])
def test_text_with_commas_is_a_list(site, text):
    write(site, "yard_a", good(namespace="yard_a"))
    loader = DomainToolLoader(text)
    assert loader.domains == ("core", "yard_a")
    loader.load()
    assert loader.namespaces == {"core", "yard_a"}


@pytest.mark.parametrize("none", ["", " , ", []])
def test_no_domains_are_no_tools(none):
    loader = DomainToolLoader(none)
    assert loader.load() == [] and loader.namespaces == frozenset() and loader.report.rejected == ()


@pytest.mark.parametrize("domains", [None, 3, {"core": 1}, b"core", ["core", ""], ["core", "  "], ["core", 5], [None]])
def test_what_names_no_domain_is_refused_at_once(domains):
    with pytest.raises(ConfigError, match="domain"):
        DomainToolLoader(domains)


def test_an_unknown_policy_is_refused():
    with pytest.raises(ConfigError, match="on_error"):
        DomainToolLoader(on_error="ignore")


@pytest.mark.parametrize(
    ("points", "value"),
    [
        ({"yard-air": "yard_points"}, "weather"),
        ({"yard-air": "yard_points:load_tools"}, "weather"),
        ({"yard-air": "yard_points:other"}, "wind"),
        ({"yard-air": "yard_points:Inside.give"}, "wind"),
        ({"yard-air": "yard_points:holder"}, "wind"),
    ],
)
def test_an_entry_point_names_a_module_or_what_gives_the_tools(site, points, value):
    body = good() + (
        "\ndef other():\n    return [function_tool(weather, namespace='x', name='wind')]\n"
        "\nclass Inside:\n    give = staticmethod(other)\n    load_tools = staticmethod(other)\n"
        "\nholder = Inside()\n"
    )
    write(site, "yard_points", body)
    install(site, "yard_air", **points)
    loader = DomainToolLoader("yard-air")
    assert names(loader) == [f"yard-air::{value}"]
    assert loader.namespaces == {"yard-air"}


def test_a_shipped_domain_comes_before_an_entry_point_and_that_before_a_module(site):
    write(site, "yard_points", good("wind"))
    write(site, "yard_both", good("rain"))
    install(site, "yard_air", core="yard_points", yard_both="yard_points")
    assert names(DomainToolLoader("core"))[0] == "core::echo"
    assert names(DomainToolLoader("yard_both")) == ["yard_both::wind"]


def test_one_name_given_by_two_packages_is_not_guessed(site):
    write(site, "yard_one", good())
    write(site, "yard_two", good())
    install(site, "yard_air", air="yard_one")
    install(site, "yard_sea", air="yard_two")
    loader = DomainToolLoader("air")
    assert loader.load() == []
    assert "yard_one, yard_two" in reason(loader) and "name its module instead" in reason(loader)


BROKEN = {
    "yard_nowhere": (None, "no domain is called 'yard_nowhere'"),
    "yard_pkg.nowhere": (None, "no domain is called 'yard_pkg.nowhere'"),
    "cores": (None, "did you mean 'core'?"),
    ".relative": (None, "no domain is called"),
    "two words": (None, "no domain is called"),
    "yard_x:load_tools": (None, "no domain is called"),
    "yard_raises": ("1/0", "yard_raises cannot be loaded: ZeroDivisionError"),
    "yard_exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "yard_syntax": ("def broken(:", "SyntaxError"),
    "yard_lacks": (
        "import yard_not_installed",
        "yard_lacks cannot be loaded: ModuleNotFoundError: No module named 'yard_not_in",
    ),
    "yard_empty": ("", "yard_empty has no function load_tools; a domain exports load_tools() -> list[Tool]"),
    "yard_value": ("load_tools = [1]", "has no function load_tools"),
    "yard_fails": (
        "def load_tools(): raise RuntimeError('no key')",
        "yard_fails cannot be loaded: RuntimeError: no key",
    ),
    "yard_quits": ("def load_tools(): raise SystemExit", "yard_quits cannot be loaded: SystemExit"),
    "yard_needs": ("def load_tools(config): ...", "yard_needs cannot be loaded: TypeError"),
    "yard_nothing": ("def load_tools(): ...", "returned a NoneType, not a list of Tool"),
    "yard_dict": ("def load_tools(): return {}", "returned a dict, not a list of Tool"),
    "yard_async": ("async def load_tools(): return []", "has an async load_tools; a domain exports"),
    "yard_lazy": (
        "def __getattr__(name): raise OSError('gone')",
        "yard_lazy cannot be loaded: OSError: gone",
    ),
    "yard_mute": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError\ndef load_tools(): raise Mute",
        "cannot be loaded: Mute: (its text cannot be shown: ValueError)",
    ),
}


@pytest.mark.parametrize("domain", BROKEN)
def test_a_bad_domain_is_listed_with_its_reason_and_the_others_go_on(site, domain):
    body, says = BROKEN[domain]
    if body is not None:
        write(site, domain, body)
    loader = DomainToolLoader([domain, "core"])
    registry = ToolRegistry.from_loaders([loader])
    assert registry.tool_names("core") == ["calc", "echo", "time_now"]
    assert loader.namespaces == {"core"}
    (rejected,) = registry.report.rejected
    assert says in rejected.reason
    assert (rejected.where, rejected.error) == (f"domains:{domain}", "MalformedSource")
    with pytest.raises(MalformedSource, match="domains:") as raised:
        DomainToolLoader([domain, "core"], on_error="raise").load()
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("yard_gone", "No module named 'yard_gone'"),
        ("yard_here:gone", "has no attribute 'gone'"),
        ("yard_here:weather.deeper", "has no attribute 'deeper'"),
        ("yard_here:number", "air has no function load_tools"),
        ("yard-here", "the entry point of air is 'yard-here'; write module or module:object"),
        (":weather", "the entry point of air is ':weather'; write module or module:object"),
        ("yard_fine [extra]", "No module named 'yard_fine'"),
    ],
)
def test_an_entry_point_that_leads_nowhere_says_where(site, value, says):
    write(site, "yard_here", good() + "\nnumber = 3\n")
    install(site, "yard_air", air=value)
    loader = DomainToolLoader("air")
    assert loader.load() == []
    assert says in reason(loader)


def test_an_unknown_domain_is_told_the_installed_ones(site):
    install(site, "yard_air", airport="yard_gone")
    loader = DomainToolLoader("airpot")
    loader.load()
    assert "did you mean 'airport'?" in reason(loader)
    other = DomainToolLoader("zzz")
    other.load()
    assert "known are airport, core" in reason(other)


def test_a_bad_tool_is_listed_and_the_rest_of_its_domain_loads(site):
    body = """
from toolyard import Tool

def plain(): ...

def load_tools():
    return (
        Tool("fine", "yard_mixed"),
        Tool("bad::name", "yard_mixed"),
        Tool("worse", "yard_mixed", parameters={"type": "strng"}),
        plain,
        {"name": "dict"},
        None,
    )
"""
    write(site, "yard_mixed", body)
    loader = DomainToolLoader("yard_mixed")
    assert names(loader) == ["yard_mixed::fine"]
    report = loader.report
    assert [(item.tool, item.error) for item in report.rejected] == [
        ("bad::name", "InvalidNameError"),
        ("worse", "InvalidSchemaError"),
        (None, "MalformedSource"),
        (None, "MalformedSource"),
        (None, "MalformedSource"),
    ]
    assert report.entries == 6
    assert report.rejected[1].where == "domains:yard_mixed.worse"
    assert "load_tools()[3] is a function, not a Tool; make it with function_tool" in report.rejected[2].reason
    with pytest.raises(MalformedSource, match="bad::name"):
        DomainToolLoader("yard_mixed", on_error="raise").load()


def test_a_tool_of_another_namespace_is_moved_to_the_domains_and_the_report_says_so(site):
    write(site, "yard_moved", good(namespace="elsewhere"))
    loader = DomainToolLoader("yard_moved")
    assert names(loader) == ["yard_moved::weather"]
    (rewrite,) = loader.report.rewrites
    assert (rewrite.tool, rewrite.pointer) == ("yard_moved::weather", "/namespace")
    assert rewrite.change == "namespace 'elsewhere' read as 'yard_moved'"


def test_the_authors_own_tools_are_never_changed(site):
    shared = {"type": "object", "properties": {"x": {"type": "dict"}}}
    write(site, "yard_shared", "TOOLS = []\ndef load_tools(): return TOOLS\n")
    loader = DomainToolLoader("yard_shared")
    assert loader.load() == []
    tool = Tool("t", "mine", parameters=shared)
    sys.modules["yard_shared"].TOOLS.append(tool)
    (loaded,) = loader.load()
    assert loaded.parameters["properties"]["x"] == {"type": "object"}
    assert shared["properties"]["x"] == {"type": "dict"}
    assert (tool.namespace, tool.source) == ("mine", None)


def test_every_load_asks_the_domain_again(site):
    write(
        site,
        "yard_state",
        "from toolyard import Tool\nNAMES = ['a']\ndef load_tools(): return [Tool(n, 'yard_state') for n in NAMES]\n",
    )
    registry = ToolRegistry.from_loaders([DomainToolLoader("yard_state")])
    sys.modules["yard_state"].NAMES.append("b")
    assert registry.refresh().ok
    assert registry.tool_names() == ["a", "b"]


def test_a_domain_that_fails_on_a_later_load_keeps_the_tools_it_gave_last(site):
    body = "from toolyard import Tool\nNAMES = ['a']\ndef load_tools(): return [Tool(n, 'x') for n in NAMES]\n"
    write(site, "yard_falls", body)
    for policy in ("skip", "raise"):
        registry = ToolRegistry.from_loaders([DomainToolLoader("yard_falls,core", on_error=policy)])
        module = sys.modules["yard_falls"]
        for _ in range(2):
            module.NAMES = None
            report = registry.refresh()
            assert not report.ok
            assert registry.tool_names() == ["a", "calc", "echo", "time_now"]
        if policy == "skip":
            assert "cannot be loaded: TypeError" in report.rejected[0].reason
            assert report.rejected[0].reason.endswith("; the tools it gave last are kept")
        module.NAMES = ["b"]
        assert registry.refresh().ok
        assert registry.tool_names() == ["b", "calc", "echo", "time_now"]
        module.NAMES = ["a"]


def test_a_domain_that_was_broken_loads_once_it_is_mended(site):
    write(site, "yard_mended", "1/0")
    registry = ToolRegistry.from_loaders([DomainToolLoader("yard_mended")])
    assert len(registry) == 0
    (site / "yard_mended.py").unlink()
    write(site, "yard_mended", good(namespace="yard_mended") + "# another size, so that no cache can hide it\n")
    assert registry.refresh().ok
    assert registry.tool_names() == ["weather"]


def test_two_domains_of_one_name_share_a_namespace_and_collide_only_over_equal_tools(site):
    write(site, "yard_p.same", good("wind", "same"))
    write(site, "yard_q.same", good("rain", "same"))
    write(site, "yard_r.same", good("rain", "same"))
    assert ToolRegistry.from_loaders([DomainToolLoader("yard_p.same,yard_q.same")]).tool_names("same") == [
        "rain",
        "wind",
    ]
    with pytest.raises(DuplicateToolError, match="same::rain"):
        ToolRegistry.from_loaders([DomainToolLoader("yard_q.same,yard_r.same")])
    registry = ToolRegistry.from_loaders([DomainToolLoader("yard_q.same,yard_r.same", on_duplicate="skip")])
    assert len(registry) == 1 and len(registry.report.rejected) == 1


async def test_it_loads_for_async_callers_too():
    assert len(await DomainToolLoader().aload()) == 3


@pytest.mark.parametrize(
    ("env", "domains"),
    [
        ({}, ("core",)),
        ({"TOOL_REGISTRY_DOMAINS": ""}, ("core",)),
        ({"TOOL_REGISTRY_DOMAINS": "web"}, ("web",)),
        ({"TOOL_REGISTRY_DOMAINS": "core, acme.web"}, ("core", "acme.web")),
    ],
)
def test_the_environment_enables_domains(env, domains):
    assert enabled_domains(env) == domains
