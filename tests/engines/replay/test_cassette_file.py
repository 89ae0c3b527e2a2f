"""A cassette on disk, whatever happens to those who write it."""

import os
import signal
import subprocess

import pytest
from waiting import until
from warm_python import warm_toolyard

from engines.engine_support import call
from engines.replay.support import counting, recorded
from toolyard.engines.cassette import Cassette

pytestmark = pytest.mark.process

WRITER = """\
import sys
from toolyard.engines.cassette import Cassette, Recording
cassette = Cassette(sys.argv[1])
rows = {"rows": ["%06d" % number for number in range(3000)]}
print("ready", flush=True)
for number in range(100_000):
    cassette.add(Recording(name="n::big", arguments={"number": number}, result=rows, when="now", duration=0.5))
"""


def test_whoever_is_killed_while_it_records_leaves_a_cassette_that_can_be_read_and_added_to(tape):
    for _ in range(2):
        size = tape.stat().st_size if tape.exists() else 0
        writers = [warm_toolyard().start(["-c", WRITER, tape], stdout=subprocess.PIPE) for _ in range(2)]
        for writer in writers:
            writer.stdout.readline()
        until(lambda size=size: tape.exists() and tape.stat().st_size > size)
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
            writer.stdout.close()
    before = len(Cassette.load(tape))
    registry = counting()
    recorded(tape, registry, [call("look")])
    read = Cassette.load(tape)
    assert len(read) == before + 1
    assert all(len(item.result["rows"]) == 3000 for item in read.recordings[:-1])
