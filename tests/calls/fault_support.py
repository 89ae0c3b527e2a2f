"""Shared by the tests of faults: a tool that counts its calls, and plans."""


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, value=None):
        self.calls = 0
        self.value = value

    def tool(self):
        def look(place: str = "here") -> dict:
            """Look."""
            self.calls += 1
            return {"place": place, "seen": self.calls} if self.value is None else self.value

        return look


def plan(*rules, seed=0):
    return {"seed": seed, "rules": list(rules)}
