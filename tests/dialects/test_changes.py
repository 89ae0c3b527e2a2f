from toolyard.dialects.payload import ChangeLog
from toolyard.model import Rewrite


def test_equal_changes_are_counted_under_the_first_place():
    log = ChangeLog()
    log.add(("properties", "a"), "x dropped")
    log.add(("properties", "b"), "x dropped")
    log.add((), "y dropped")
    assert log.rewrites("hr::find") == [
        Rewrite("hr::find", "/properties/a", "x dropped", 2),
        Rewrite("hr::find", "", "y dropped", 1),
    ]


def test_pointers_escape_the_names_in_them():
    log = ChangeLog()
    log.add(("properties", "a/b~c", 0), "gone")
    assert log.rewrites("t")[0].pointer == "/properties/a~1b~0c/0"
