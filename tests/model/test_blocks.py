"""Which tools of a set are still together as they were read."""

import gc
import weakref

from hypothesis import given, strategies as st

from toolyard.model.blocks import drop_broken, mark_block, parts_of
from toolyard.model.tool import Tool


def _tools(count, namespace="some"):
    return [Tool(f"tool_{number}", namespace, f"Number {number}.") for number in range(count)]


def test_tools_that_nobody_marked_are_given_as_they_are():
    tools = _tools(3)
    assert [list(part) for part in parts_of(tools)] == [tools]
    assert list(parts_of([])) == []


def test_a_whole_block_is_one_hash_wherever_it_stands():
    block, before, after = _tools(3), _tools(2, "before"), _tools(1, "after")
    mark_block(block, b"data")
    assert len(list(parts_of(block))) == 1
    first, second, third = parts_of([*before, *block, *after])
    assert (list(first), list(third)) == (before, after)
    assert [second] == list(parts_of(block))


def test_the_hash_follows_from_the_data_and_from_how_the_tools_were_made_of_it():
    def hashed(data, *made):
        tools = _tools(2)
        mark_block(tools, data, *made)
        return list(parts_of(tools))

    assert hashed(b"data", "file", ("a", None)) == hashed(b"data", "file", ("a", None))
    assert hashed(b"data", "file", ("a", None)) == hashed(lambda: b"data", "file", ("a", None))
    different = [
        hashed(b"data", "file"),
        hashed(b"date", "file"),
        hashed(b"data", "fil"),
        hashed(b"data", "file", None),
    ]
    assert all(one not in different[:place] for place, one in enumerate(different))


def test_a_first_tool_may_stand_with_others_that_were_made_anew_behind_it():
    tools = _tools(4)
    mark_block(tools, b"file")
    read = list(parts_of(tools))
    derived = []
    for data in (b"some", b"more"):
        anew = [tools[0], *(tool.replace() for tool in tools[1:])]
        mark_block(anew, data, derived=True)
        derived.append(list(parts_of(anew)))
    assert list(parts_of(tools)) == read
    assert [len(parts) for parts in (read, *derived)] == [1, 1, 1]
    assert len({read[0], derived[0][0], derived[1][0]}) == 3


def test_a_derived_block_that_is_no_longer_whole_keeps_no_tool():
    first, others, more = _tools(1), _tools(3), _tools(2, "more")
    mark_block([*first, *others], b"some", derived=True)
    drop_broken([*first, *others, *more])
    assert isinstance(next(parts_of([*first, *others, *more])), bytes)
    drop_broken([*first, *more])
    assert not first[0].__dict__
    drop_broken([])


def test_data_is_hashed_when_somebody_asks_and_then_once():
    asked = []
    tools = _tools(2)
    mark_block(tools, lambda: asked.append(1) or b"data")
    assert asked == []
    assert list(parts_of(tools)) == list(parts_of(tools))
    assert asked == [1]


def test_a_name_that_no_text_can_hold_is_no_error():
    tools = _tools(1)
    mark_block(tools, b"data", "\ud83d")
    assert len(list(parts_of(tools))) == 1


def test_a_block_goes_with_its_tools():
    tools = _tools(2)
    mark_block(tools, b"data")
    watched = weakref.ref(tools[0].__dict__["block"])
    del tools
    gc.collect()
    assert watched() is None


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    edit=st.sampled_from(("drop", "replace", "swap", "double", "cut", "none")),
    at=st.integers(0, 15),
)
def test_only_blocks_that_are_whole_and_in_order_are_hashed_and_no_tool_is_lost(sizes, edit, at):
    blocks = [_tools(size, f"n{number}") for number, size in enumerate(sizes)]
    for number, block in enumerate(blocks):
        mark_block(block, bytes([number]))
    tools = [tool for block in blocks for tool in block]
    at %= len(tools)
    if edit == "drop":
        del tools[at]
    elif edit == "replace":
        tools[at] = tools[at].replace()
    elif edit == "swap":
        tools[at], tools[0] = tools[0], tools[at]
    elif edit == "double":
        tools.insert(at, tools[at])
    elif edit == "cut":
        del tools[at:]
    hashes = {next(iter(parts_of(block))): block for block in blocks}
    given_back = [tool for part in parts_of(tools) for tool in (hashes[part] if isinstance(part, bytes) else part)]
    assert list(map(id, given_back)) == list(map(id, tools))
    if edit == "none":
        assert [isinstance(part, bytes) for part in parts_of(tools)] == [True] * len(blocks)
