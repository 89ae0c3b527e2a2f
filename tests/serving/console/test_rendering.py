"""Rows of long lists are escaped before their template has them: whatever stands in a name stays text."""

from html.parser import HTMLParser

from hypothesis import given, strategies as st

from toolyard.serving.console.catalog import CatalogRow
from toolyard.serving.console.rendering import _environment, render_value

TEXT = st.text(st.sampled_from("<>&\"'/= sonclickimgscript{}%"), max_size=30) | st.text(max_size=10)
ROWS = """{% autoescape false %}{% for cells in found %}<a href="{{ cells[0] }}" title="{{ cells[1] }}">{{ cells|join("|") }}</a>
{% endfor %}{% endautoescape %}"""


class Tags(HTMLParser):
    """Which elements there are, and with which attributes."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, tuple(name for name, _ in attributes)))


LINK, BADGE, FINE = ("a", ("href", "title")), ("span", ("class",)), ("span", ("class",))


def render(root="/yard", **found):
    [(name, rows)] = found.items()
    environment = _environment(root)
    return environment.from_string(ROWS).render(found=environment.globals[name](rows))


@given(TEXT, TEXT, TEXT)
def test_values_of_a_call_never_become_elements_or_attributes(tool, session, code):
    call = {
        "id": "0" * 16,
        "time": "2026-01-01T00:00:00.000+00:00",
        "tool": tool,
        "mode": "execute",
        "duration_ms": 1.5,
    }
    for root in ("/yard", '/"><img src=x>'):
        page = render(root, call_cells=[{**call, "session_id": session, "code": code}])
        assert Tags(page).seen == [LINK, BADGE, FINE]


@given(TEXT, TEXT, TEXT, TEXT)
def test_values_of_a_tool_never_become_elements_or_attributes(name, label, namespace, text):
    row = CatalogRow(name, label, namespace, text, "unknown", (), "", 2)
    for root in ("/yard", '/"><img src=x>'):
        assert Tags(render(root, tool_cells=[row])).seen == [LINK, BADGE]


def test_text_of_several_lines_is_shown_as_it_is_unless_a_reader_could_not_see_all_of_it():
    assert render_value("# One\n<two>") == ("# One\n&lt;two&gt;", True, 0)
    for value in ("one line", "one\n\x1b[31mtwo", ["one\ntwo"]):
        assert not render_value(value)[1]
