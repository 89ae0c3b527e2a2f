"""Words of names and queries."""

import pytest
from hypothesis import given, strategies as st

from toolyard import Tool
from toolyard.insight.search.query import (
    MOST_SEGMENTS,
    find_kind,
    list_views,
    read_query,
    split_query,
    split_words,
    stem_fields,
    stem_required,
    stem_words,
)


def test_identifiers_are_split_into_words():
    assert split_words("getHTTPUrl_v2.find-all") == ["get", "http", "url", "v2", "find", "all"]
    assert stem_words("Calculating calculations") == ["calcul", "calcul"]


def test_a_possessive_is_no_word_and_every_word_has_one_stem():
    assert split_words("The user's name and the team'S size") == ["the", "user", "name", "and", "the", "team", "size"]
    text = "getHTTPUrls of Größen, İstanbul and 天気予報 v2Beta " + "x" * 500
    assert len(stem_words(text)) == len(split_words(text)) == 14


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("取消订单", ["取消", "消订", "订单"]),
        ("查询 API v2 天气", ["查询", "api", "v2", "天气"]),
        ("get订单ById", ["get", "订单", "by", "id"]),
        ("店", ["店"]),
        ("주문 취소", ["주문", "취소"]),
        ("注文を取り消す", ["注文", "文を", "を取", "取り", "り消", "消す"]),
        ("größte Städte", ["größte", "städte"]),
    ],
)
def test_text_without_spaces_is_split_into_letter_pairs(text, found):
    assert split_words(text) == found


def test_names_in_any_script_are_embedded_whole():
    views = ("取消订单 v2. 取消已有的订单 ()", "x 取消订单 v2", "取消已有的订单")
    assert list_views(Tool("取消订单_v2", "x", "取消已有的订单")) == views


def test_a_long_query_is_split_into_sentences_and_clauses():
    parts = split_query("Find the weather in Rome. Then book a hotel, and tell me the time in Paris.")
    assert parts[0].startswith("Find the weather") and parts[0].endswith("Paris.")
    assert "Find the weather in Rome." in parts
    assert any(part.startswith("tell me the time") for part in parts)


def test_stems_are_read_by_field_and_unusual_schemas_have_none():
    tool = Tool(
        "findUser",
        "x",
        "Looks people up",
        {"properties": {"userName": {"description": "The name", "enum": ["Ann"]}, "odd": 3}, "required": ["userName"]},
        tags=("crm",),
        aliases=("whois",),
    )
    names, described, keys, texts, values = stem_fields(tool)
    assert names == ["find", "user", "whoi"]
    assert described == ["look", "peopl", "up", "crm"]
    assert (keys, texts, values) == (["user", "name", "odd"], ["the", "name"], ["ann"])
    assert stem_required(tool) == [["user", "name"]]
    assert list_views(tool)[0] == "find user. Looks people up (user name, odd)"
    assert stem_fields(Tool("a", "x", "", {"properties": [1], "required": "a"}))[2:] == ([], [], [])


@given(st.text(max_size=3000))
def test_any_text_can_be_read_as_a_query(text):
    query = read_query(text)
    assert 1 <= len(query.segments) <= MOST_SEGMENTS + 1
    assert query.has.shape == (len(query.segments), len(query.stems))
    assert len(query.stems) <= 96


def test_a_tool_has_three_embedded_texts():
    tool = Tool("post_message", "slack", "Post a message. It is seen by all.\nUse with care.")
    assert list_views(tool)[1:] == ("slack post message", "Post a message.")
    assert list_views(Tool("slack_post", "slack", ""))[1:] == ("slack post", "slack post")
    assert list_views(Tool("now", "clock", "The time\nof day"))[2] == "The time"


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("batch-create-objects", "", "create"),
        ("listFiles", "Deletes nothing", "list"),
        ("putItem", "", "update"),
        ("directions", "Gets the way from here to there", "get"),
        ("directions", "The way from here to there", ""),
    ],
)
def test_the_first_verb_decides_the_kind_of_a_tool(name, description, kind):
    assert find_kind(Tool(name, "x", description)) == kind


@pytest.mark.parametrize("text", ["what is on for tomorrow", "is it late", "and the label is red?", "Show me my cards"])
def test_questions_ask_for_tools_that_read(text):
    assert read_query(text).asks


@pytest.mark.parametrize("text", ["put the milk on the list", "", "delete what is left"])
def test_commands_are_not_questions(text):
    assert not read_query(text).asks
