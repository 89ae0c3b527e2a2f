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
