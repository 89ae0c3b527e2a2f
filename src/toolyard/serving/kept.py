"""`Kept`: answers that need not be written again as long as the catalog is what it is."""

from __future__ import annotations

from collections import OrderedDict

from toolyard.serving.response import Response

MOST = 1024
MOST_BYTES = 64 * 1024 * 1024


class Kept:
    """Answers that depend on the catalog alone: written once a snapshot, then handed out.

    Where there is no room for another, those go that nobody asked for the longest.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._snapshot: object = None
        self._answers: OrderedDict[object, Response] = OrderedDict()
        self._bytes = 0

    def get(self, snapshot: object, key: object) -> Response | None:
        """The answer for a key, if it was kept for that very snapshot."""
        answer = self._answers.get(key) if self._snapshot is snapshot else None
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, snapshot: object, key: object, answer: Response) -> Response:
        """Keep an answer, unless it would take all the room alone; another snapshot begins anew."""
        if self._snapshot is not snapshot:
            self._snapshot, self._answers, self._bytes = snapshot, OrderedDict(), 0
        before = self._answers.pop(key, None)
        self._bytes -= 0 if before is None else len(before.body)
        if len(answer.body) > self._most_bytes:
            return answer
        self._answers[key] = answer
        self._bytes += len(answer.body)
        while len(self._answers) > self._most or self._bytes > self._most_bytes:
            _, longest = self._answers.popitem(last=False)
            self._bytes -= len(longest.body)
        return answer
