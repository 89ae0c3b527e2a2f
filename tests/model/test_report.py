import pytest

from toolyard.model import LoadReport, Rejection, Rewrite, SourceReport


def test_entries_are_loaded_plus_rejected_and_a_tool_counts_once_as_rewritten():
    source = SourceReport(
        "a.yaml",
        loaded=2,
        rewrites=(Rewrite("n::a", "/x", "c"), Rewrite("n::a", "/y", "d")),
        rejected=(Rejection("a.yaml:3", "bad"),),
    )
    assert (source.entries, source.rewritten) == (3, 1)
    report = LoadReport((source, SourceReport("b.yaml", 5)))
    assert (report.loaded, len(report.rejected), report.ok) == (7, 1, False)
    assert report.to_dict()["sources"][0]["rejected"][0]["where"] == "a.yaml:3"


def test_a_stale_source_is_not_ok():
    assert not LoadReport((SourceReport("a", 1, state="stale", error="gone"),)).ok
    assert LoadReport((SourceReport("a", 1),)).ok


@pytest.mark.parametrize("name", ["pay", "bank::pay", "bank__pay"])
@pytest.mark.parametrize("rejected", ["pay", "bank::pay"])
def test_a_missing_tool_is_explained_by_the_entry_of_its_name_that_was_rejected(name, rejected):
    bad = (Rejection("a.yaml:3", "no type"), Rejection("a.yaml:9", "no such type", rejected))
    said = LoadReport((SourceReport("b.yaml", 5), SourceReport("a.yaml", rejected=bad))).explain_missing(name)
    assert said == f"'{rejected}' of a.yaml:9 was rejected when it was loaded: no such type"


@pytest.mark.parametrize("name", ["", "repay", "shop::pay", "pay::bank", "bank::", "::"])
def test_names_without_a_rejection_have_no_explanation(name):
    report = LoadReport((SourceReport("a", rejected=(Rejection("a:1", "bad", "bank::pay"), Rejection("a", "bad"))),))
    assert report.explain_missing(name) is None
