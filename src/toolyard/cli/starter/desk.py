"""Tools of the desk."""


def split_bill(total: float, people: int = 2) -> list[float]:
    """Split a bill evenly.

    Args:
        total: What the bill says.
        people: How many share it.
    """
    return [round(total / people, 2)] * people
