"""xdist's `--dist loadfile` in linear time: its own looks through all tests, and all that have ended, for each test."""

from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadFileScheduling


class FileScheduling(LoadFileScheduling):
    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Tests(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget the test; what is left of a file is what is pending."""
        test = self.registered_collections[node][item_index]
        files, file = self.assigned_work[node], self._split_scope(test)
        del files[file][test]
        if not files[file]:
            del files[file]
        self._reschedule(node)


class _Tests(list[str]):
    """Tests that know their numbers."""

    def __init__(self, tests: Sequence[str]) -> None:
        super().__init__(tests)
        self._numbers = {test: number for number, test in enumerate(tests)}

    def index(self, test: str, *_: Any) -> int:
        return self._numbers[test]
