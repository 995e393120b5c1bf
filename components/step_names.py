"""What a step of a loop is called, which runs once for each of the loop's items."""


def in_a_loop(name: str, *turns: int) -> str:
    """Returns the name of a step that runs once for each item of a loop.

    Args:
        turns: The item's number, from 0; in loops in loops those of all, from the outside.
    """
    return "-".join([name, *(f"{turn:03}" for turn in turns)])


def without_index(name: str) -> str:
    """Returns the name that a step shares with the others of its loop, or loops."""
    words = name.split("-")
    while len(words) > 1 and words[-1].isdecimal() and len(words[-1]) >= 3:
        words.pop()
    return "-".join(words)
