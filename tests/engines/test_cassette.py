"""The file of a cassette: everything JSON can say survives both spellings, and nothing is lost to a crash."""

import json

import pytest
from hypothesis import given, strategies as st
from warm_python import warm_toolyard

from toolyard import ConfigError, MalformedSource, SourceUnavailable
from toolyard.engines.cassette import Cassette, Recording, call_key, find_nearest
from toolyard.model.errors import CallError, ErrorInfo

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(
        (
            *("on", "No", "null", "~", "1e3", "0o14", "0x1f", "010", "1_000", ".inf", "2024-01-02", "- a", "a: b", "#"),
            *("", " a ", "a\nb\n", "\ta", "\x85", "\u2028", "\x7f", "\ufeff", "'", '"', "\\", "!t", "&a", "*a", "<<"),
            *("=", "%", "@", "`", "::", "a::b"),
        )
    ),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
INFOS = st.builds(
    ErrorInfo,
    TEXT,
    TEXT,
    st.booleans(),
    st.none() | st.floats(0, 1e6),
    st.sampled_from(["none", "done", "unknown"]),
    st.none() | TEXT,
    st.dictionaries(TEXT, VALUES, max_size=2),
)
COMMON = {"name": TEXT, "arguments": st.dictionaries(TEXT, VALUES, max_size=3), "when": TEXT, "definition_hash": TEXT}
RECORDINGS = st.one_of(st.builds(Recording, result=VALUES, **COMMON), st.builds(Recording, error=INFOS, **COMMON))


def same(one, other):
    """Equal, and of equal types: 1, 1.0 and True are not the same here."""
    return json.dumps(one.to_dict()) == json.dumps(other.to_dict())


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
@given(recordings=st.lists(RECORDINGS, max_size=4))
def test_whatever_is_added_is_read_again(tmp_path_factory, suffix, recordings):
    path = tmp_path_factory.mktemp("c") / f"tape.{suffix}"
    cassette = Cassette(path)
    for number, recording in enumerate(recordings):
        assert cassette.add(recording) == number
    if not recordings:
        path.touch()
    again = Cassette.load(path)
    assert len(again) == len(recordings)
    assert all(same(one, other) for one, other in zip(again.recordings, recordings, strict=True))
    for number, recording in enumerate(recordings):
        assert number in again.find(recording.key) and number in again.find(recording.name)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_call_is_the_same_whatever_the_order_of_its_arguments(arguments):
    turned = dict(reversed(list(arguments.items())))
    assert call_key("a::b", arguments) == call_key("a::b", turned)
    assert call_key("a::b", arguments) != call_key("a::c", arguments)


def test_an_error_is_raised_again_with_all_it_said():
    info = ErrorInfo("tool.unavailable", "later", True, 3.0, "unknown", "wait", {"status": 429})
    with pytest.raises(CallError) as caught:
        Recording(name="a::b", error=info).play()
    assert caught.value.info == info


def test_half_a_line_is_ignored_and_the_next_one_takes_its_place(tmp_path):
    path = tmp_path / "tape.jsonl"
    cassette = Cassette(path)
    cassette.add(Recording(name="a::b", result=1))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"name":"a::c","resu')
    assert len(Cassette.load(path)) == 1
    cassette.add(Recording(name="a::d", result=2))
    assert [recording.name for recording in Cassette.load(path).recordings] == ["a::b", "a::d"]


@pytest.mark.process
@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_processes_write_to_one_cassette_without_tearing_it(tmp_path, suffix):
    path = tmp_path / f"tape.{suffix}"
    code = (
        "import sys; from toolyard.engines.cassette import Cassette, Recording\n"
        "c = Cassette(sys.argv[1])\n"
        "for n in range(100): c.add(Recording(name=f'p{sys.argv[2]}::t', arguments={'n': n, 'fill': 'x' * 3000}, result=n))\n"
    )
    running = [warm_toolyard().start(["-c", code, path, number]) for number in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4
    cassette = Cassette.load(path)
    assert len(cassette) == 400
    for number in range(4):
        results = [cassette.recordings[place].result for place in cassette.find(f"p{number}::t")]
        assert results == list(range(100))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.jsonl", '{"name": 1, "result": 1}\n', "t.jsonl:1"),
        ("t.jsonl", '{"name": "a"}\n', "either a result or an error"),
        ("t.jsonl", "\n\n[]\n", "t.jsonl:3"),
        ("t.jsonl", '{"name": "a", "result": 1, "name": "b"}\n', "t.jsonl:1"),
        ("t.jsonl", "{\n", "t.jsonl:1"),
        ("t.yaml", "a: 1\n", "a list of recordings"),
        ("t.yaml", "- {name: a, result: 1, extra: 2}\n", "t.yaml[0]"),
        ("t.yaml", "- {name: a, result: 1, error: {code: x, message: y}}\n", "either a result or an error"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(MalformedSource) as caught:
        Cassette.load(tmp_path / name)
    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_not_named_as_one_is_refused(tmp_path):
    with pytest.raises(SourceUnavailable):
        Cassette.load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"\.jsonl or \.yaml"):
        Cassette(tmp_path / "none.txt")


def test_a_person_may_write_a_cassette(tmp_path):
    path = tmp_path / "tape.yaml"
    path.write_text("- name: weather::now\n  arguments: {city: Oslo}\n  result: {temperature: -3}\n")
    cassette = Cassette.load(path)
    (number,) = cassette.find(call_key("weather::now", {"city": "Oslo"}))
    assert cassette.recordings[number].play() == {"temperature": -3}


def test_the_nearest_recording_shares_the_most(tmp_path):
    cassette = Cassette(tmp_path / "t.jsonl")
    for arguments in ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"c": 1}):
        cassette.add(Recording(name="n::t", arguments=arguments, result=1))
    assert find_nearest(cassette, "n::t", {"a": 0, "b": 3}) == {"a": 1, "b": 3}
    assert find_nearest(cassette, "n::other", {}) is None


ONE = Recording(name="n::look", arguments={"place": "oslo"}, result={"a": [1, {"b": 2}]}, when="then", duration=0.25)
TWO = Recording(name="n::look", arguments={"place": "bergen"}, error=ErrorInfo("x", "y"), when="then", duration=0.5)


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_last_line_without_a_line_feed_is_kept(tmp_path, suffix):
    path = tmp_path / f"tape.{suffix}"
    Cassette(path).add(ONE)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert Cassette.load(path).recordings == [ONE]
    Cassette(path).add(TWO)
    assert Cassette.load(path).recordings == [ONE, TWO]


@pytest.mark.parametrize("suffix", ["jsonl", "yaml"])
def test_a_recording_is_there_as_a_whole_or_not_at_all_wherever_it_was_cut_off(tmp_path, suffix):
    path = tmp_path / f"tape.{suffix}"
    Cassette(path).add(ONE)
    first = path.read_bytes()
    Cassette(path).add(TWO)
    second = path.read_bytes()[len(first) :]
    for size in range(len(second)):
        path.write_bytes(first + second[:size])
        read = Cassette.load(path).recordings
        Cassette(path).add(ONE)
        assert read[0] == ONE
        assert [item.error for item in read[1:]] in ([], [TWO.error])
        assert Cassette.load(path).recordings == [*read, ONE]


@pytest.mark.parametrize("end", ["", "\n", "\n# the end\n"])
def test_what_people_wrote_is_added_to_and_never_cut(tmp_path, end):
    path = tmp_path / "tape.yaml"
    by_hand = "# by hand\n- name: n::look\n  result: {place: oslo}\n- name: n::look\n  result: 5" + end
    path.write_text(by_hand)
    Cassette(path).add(ONE)
    assert path.read_text().startswith(by_hand)
    assert [item.result for item in Cassette.load(path).recordings] == [{"place": "oslo"}, 5, ONE.result]


@pytest.mark.parametrize("text", ["[{name: n::look, result: 5}]\n", "  - name: n::look\n    result: 5\n"])
def test_a_list_that_cannot_be_added_to_says_so_and_stays_as_it_is(tmp_path, text):
    path = tmp_path / "tape.yaml"
    path.write_text(text)
    with pytest.raises(OSError, match="'-' at the start of a line"):
        Cassette(path).add(ONE)
    assert path.read_text() == text
    assert [item.result for item in Cassette.load(path).recordings] == [5]


def test_a_slip_of_the_pen_at_the_end_of_a_cassette_is_told(tmp_path):
    path = tmp_path / "tape.yaml"
    path.write_text("- name: n::look\n  result: 5\n- name: n::look\n  result: {a: [1}\n")
    with pytest.raises(MalformedSource):
        Cassette.load(path)


def test_a_large_text_in_yaml_comes_back_as_it_was(tmp_path):
    path, text = tmp_path / "tape.yaml", "x\u2028\x85\U0001f600: - #\n" * 5000
    Cassette(path).add(Recording(name="n::look", result=text))
    assert Cassette.load(path).recordings[0].result == text
