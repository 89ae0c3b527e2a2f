"""Scripts that write to the pipe of their results themselves, with the token of the call."""

import pytest

from toolyard.links.scripts import ScriptFailed

from ..conftest import script, soon

pytestmark = pytest.mark.process

FORGER = script("""
    import os, re, sys, time

    def token():
        frame = sys._getframe()
        while "token" not in frame.f_locals:
            frame = frame.f_back
        return frame.f_locals["token"]

    def say(token, value):
        body = ('{"token":"%s","again":true,"value":%s}' % (token, value)).encode()
        os.write(4, len(body).to_bytes(4, "big") + body)

    def run(**more):
        say(token(), os.getpid())
        start = os.read(3, 200)
        say(re.search(rb'"token":"([0-9a-f]+)"', start)[1].decode(), os.getpid())
        time.sleep(600)

    def large():
        say(token(), '"' + "x" * 500_000 + '"')
        time.sleep(600)

    def pid(**more):
        return os.getpid()
""")


def test_a_worker_that_answers_before_it_has_read_the_question_gets_no_other(pools, level):
    pool = pools(level, workers=1)
    pid = pool.call(FORGER, "run", {}, deadline=soon()).value
    assert pool.call(FORGER, "run", {"x": "y" * 500_000}, deadline=soon()).value == pid
    assert pool.call(FORGER, "pid", {"x": "z"}, deadline=soon()).value != pid


def test_the_limit_of_an_answer_is_the_servers_and_holds_for_one_that_comes_in_one_piece(pools):
    pool = pools("rlimits", max_answer_bytes=100)
    with pytest.raises(ScriptFailed, match="a frame of 5000.. bytes"):
        pool.call(FORGER, "large", {}, deadline=soon())
