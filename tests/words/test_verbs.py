"""Every verb has one meaning."""

import pytest

from toolyard.words import identifiers as verbs


def test_no_verb_is_in_two_rows():
    listed = [verb for row in verbs._VERBS.values() for verb in row.split()]
    assert len(listed) == len(set(listed)) == len(verbs.CRUD_BY_VERB)


def test_verbs_and_methods_say_what_a_call_does():
    assert [verbs.CRUD_BY_VERB[verb] for verb in ("book", "fetch", "browse", "upsert", "erase", "pay")] == [
        *("create", "get", "list", "replace", "delete", "act"),
    ]
    assert verbs.CRUD_BY_METHOD["put"] == "replace" and "post" not in verbs.CRUD_BY_METHOD


@pytest.mark.parametrize(
    ("word", "verb"),
    [("retrieves", "retrieve"), ("searches", "search"), ("verifies", "verify"), ("booking", "book"), ("table", None)],
)
def test_verbs_are_known_in_their_forms(word, verb):
    assert verbs.base_verb(word) == verb
