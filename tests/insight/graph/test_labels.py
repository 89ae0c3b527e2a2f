"""Names that fit and do no harm."""

from hypothesis import given, strategies as st

from toolyard.insight.graph.colours import PALETTE, luminance
from toolyard.insight.graph.labels import cells, fitted, plain, shared


@given(st.text(max_size=80), st.integers(4, 40))
def test_a_fitted_name_fits(text, most):
    assert cells(fitted(text, most)) <= most


def test_a_long_name_keeps_its_beginning_and_its_end():
    assert fitted("get_customer_by_identifier", 16) == "get_cust…ntifier"
    assert fitted("short", 16) == "short"
    assert cells("名前") == 4


def test_what_cannot_be_shown_becomes_a_mark():
    assert plain("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert plain("grüße 名前") == "grüße 名前"


def test_what_all_names_begin_with_is_found():
    assert shared(["files.projects.list", "files.projects.get"]) == len("files.projects.")
    assert shared(["get_user", "get_order"]) == 0
    assert shared(["alone.in.here"]) == 0
    assert shared(["files.projects.", "files.projects.get"]) == 0


def test_every_colour_can_be_told_from_both_grounds():
    for colour in PALETTE:
        for ground in ("#f6f5f1", "#151614"):
            light, dark = sorted((luminance(colour), luminance(ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3
    assert len(set(PALETTE)) == len(PALETTE)
