"""Real catalogs and OpenAPI documents: both parsers read them alike, and most take the fast path."""

from __future__ import annotations

from collections import Counter

from yaml_twins import twins

from conftest import material

FILES = material("**/*.y*ml")


def test_real_documents_are_read_alike_and_mostly_fast() -> None:
    assert FILES
    verdicts = {path: twins(path.read_text(encoding="utf-8-sig")) for path in FILES}
    count = Counter(verdicts.values())
    assert set(count) <= {"same", "undecided"}, [
        path for path, verdict in verdicts.items() if verdict not in ("same", "undecided")
    ]
    assert count["same"] > 0.9 * len(FILES), [path for path, verdict in verdicts.items() if verdict == "undecided"]
