"""`DeclarationPool`: workers for one load, called early and gone at its end."""

import hashlib

import pytest

from toolyard.links.scripts import Code, Declared, ScriptPool, WorkerSettings
from toolyard.model.errors import ConfigError, SourceUnavailable, Unavailable
from toolyard.sources.scripts.declarations import DeclarationPool

TEXT = b"TOOL_NAME = 'a'\nTOOL_DESCRIPTION = 'b'\nTOOL_PARAMETERS = {}\ndef run(): pass\n"
CODES = [Code(f"{name}.py", hashlib.sha256(TEXT).hexdigest(), TEXT) for name in "ab"]


@pytest.fixture
def fork_servers(monkeypatch):
    """Every process that workers were forked from, as it was started."""
    from toolyard.links.scripts.fork_server import ForkServer

    made, start = [], ForkServer.start

    def noted(nursery):
        start(nursery)
        made.append(nursery)

    monkeypatch.setattr(ForkServer, "start", noted)
    return made


@pytest.mark.process
def test_it_is_started_once_whether_called_early_or_not(fork_servers):
    for early in (True, False):
        crew = DeclarationPool(WorkerSettings(), "here")
        if early:
            crew.get_ready()
        assert [type(item) for item in crew.declare(CODES)] == [Declared, Declared]
        crew.close()
    assert len(fork_servers) == 2
    assert all(nursery._process is None for nursery in fork_servers)


def test_nobody_is_left_of_a_crew_that_was_not_needed(fork_servers):
    crew = DeclarationPool(WorkerSettings(), "here")
    crew.get_ready()
    crew.close()
    assert all(nursery._process is None for nursery in fork_servers)


def test_one_that_was_never_called_has_nothing_to_close():
    crew = DeclarationPool(WorkerSettings(), "here")
    crew.close()
    assert crew._pool is None


def test_what_stands_against_it_is_said_when_it_is_needed(monkeypatch):
    def refuse(_sandbox):
        raise ConfigError("not here")

    monkeypatch.setattr("toolyard.links.scripts.pool.probe_level", refuse)
    crew = DeclarationPool(WorkerSettings(), "here")
    crew.get_ready()
    with pytest.raises(ConfigError, match="not here"):
        crew.declare(CODES)
    crew.close()


def test_without_workers_the_source_is_unavailable(monkeypatch):
    def fail(*_args, **_named):
        raise Unavailable("nobody came")

    monkeypatch.setattr(ScriptPool, "declare", fail)
    crew = DeclarationPool(WorkerSettings(), "here")
    with pytest.raises(SourceUnavailable, match="here: no worker could read the scripts: nobody came"):
        crew.declare(CODES)
    crew.close()
