"""Readers never see a missing or half-built registry, whatever writers do and whichever source fails."""

import threading

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conftest import examples
from toolyard import DefinitionError, SourceUnavailable, Tool, ToolCall, ToolLoader, ToolRegistry, ToolyardError

NAMES = [f"t{i}" for i in range(6)]
names = st.sampled_from(NAMES)


def schema(version):
    return {"type": "object", "properties": {f"v{version}": {"type": "integer"}}, "required": [f"v{version}"]}


def make(namespace, name, version=0):
    return Tool(name, namespace, "", schema(version))


class Source(ToolLoader):
    def __init__(self, namespace):
        self.namespace = namespace
        self.wanted = ["t0"]
        self.version = 0
        self.fails = False

    @property
    def source(self):
        return self.namespace

    def load(self):
        if self.fails:
            raise SourceUnavailable(f"{self.namespace} is down")
        return [make(self.namespace, name, self.version) for name in self.wanted]


class Reader(threading.Thread):
    """Looks at one snapshot after another and notes anything that does not fit together."""

    def __init__(self, registry):
        super().__init__(daemon=True)
        self.registry = registry
        self.stop = threading.Event()
        self.problems = []
        self.looks = 0

    def run(self):
        while not self.stop.is_set():
            self.looks += 1
            try:
                self.look()
            except BaseException as error:
                self.problems.append(repr(error))
                return

    def look(self):
        snapshot = self.registry.snapshot
        indexed = [c for candidates in snapshot.names.values() for c in candidates]
        assert sorted(map(id, indexed)) == sorted(map(id, snapshot.candidates))
        assert len(snapshot.tools) == sum(s.loaded for s in snapshot.report.sources)
        assert "always::here" in self.registry
        assert self.registry.match(ToolCall("always::here", {"v0": 1})) is not None
        # A source is swapped whole: all of its tools are of one version.
        for namespace in ("one", "two"):
            versions = {tuple(t.parameters["required"]) for t in snapshot.tools if t.namespace == namespace}
            assert len(versions) <= 1


class Registry(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.sources = {"one": Source("one"), "two": Source("two")}
        self.registry = ToolRegistry([make("always", "here")])
        self.attached = set()
        self.direct = {"always::here"}
        self.reader = Reader(self.registry)
        self.reader.start()

    @rule(name=names)
    def add(self, name):
        qualified = f"mine::{name}"
        try:
            self.registry.add(make("mine", name))
            assert qualified not in self.direct
            self.direct.add(qualified)
        except DefinitionError:
            assert qualified in self.direct

    @rule(name=names, other=names)
    def add_two_where_the_second_is_taken(self, name, other):
        before = self.registry.snapshot
        try:
            self.registry.add(make("fresh", name), make("always", "here"))
        except DefinitionError:
            assert self.registry.snapshot is before
        else:
            raise AssertionError("a duplicate was accepted")

    @rule(name=names)
    def remove(self, name):
        qualified = f"mine::{name}"
        if qualified in self.direct:
            self.registry.remove(qualified)
            self.direct.discard(qualified)

    @rule(which=st.sampled_from(["one", "two"]))
    def attach(self, which):
        if which in self.attached:
            return
        before = self.registry.snapshot
        try:
            self.registry.attach(self.sources[which])
            self.attached.add(which)
        except ToolyardError:
            assert self.sources[which].fails
            assert self.registry.snapshot is before

    @rule(
        which=st.sampled_from(["one", "two"]),
        wanted=st.lists(names, unique=True),
        version=st.integers(0, 3),
        fails=st.booleans(),
    )
    def change_source(self, which, wanted, version, fails):
        source = self.sources[which]
        source.wanted, source.version, source.fails = wanted, version, fails

    @rule(strict=st.booleans())
    def refresh(self, strict):
        before = self.registry.snapshot
        broken = any(self.sources[which].fails for which in self.attached)
        try:
            report = self.registry.refresh(strict=strict)
        except SourceUnavailable:
            assert strict
            assert broken
            assert self.registry.snapshot is before
            return
        states = {s.source: s.state for s in report.sources if s.source in self.sources}
        assert states == {which: "stale" if self.sources[which].fails else "ok" for which in self.attached}
        for which in self.attached:
            if not self.sources[which].fails:
                got = sorted(t.name for t in self.registry if t.namespace == which)
                assert got == sorted(self.sources[which].wanted)

    @invariant()
    def direct_tools_are_there(self):
        if hasattr(self, "registry"):
            have = {t.qualified_name for t in self.registry if t.namespace in ("always", "mine")}
            assert have == self.direct

    def teardown(self):
        if hasattr(self, "reader"):
            self.reader.stop.set()
            self.reader.join()
            assert self.reader.problems == []


TestRegistry = Registry.TestCase
TestRegistry.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)


def test_many_writers_and_readers_at_once_lose_no_tool():
    registry = ToolRegistry([make("always", "here")])
    source = Source("one")
    registry.attach(source)
    readers = [Reader(registry) for _ in range(2)]
    for reader in readers:
        reader.start()

    def write(worker):
        for index in range(60):
            registry.add(make(f"w{worker}", f"t{index}"))
            if index % 10 == 0:
                source.wanted = NAMES[: 1 + index % 5]
                registry.refresh()

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    for reader in readers:
        reader.stop.set()
        reader.join()
        assert reader.problems == []
        assert reader.looks > 0
    for worker in range(4):
        assert len(registry.tool_names(f"w{worker}")) == 60
