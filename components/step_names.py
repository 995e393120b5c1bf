"""What a step of a loop is called, which runs once for each of the loop's items."""

import re


def in_a_loop(name: str, *turns: int) -> str:
    """Returns the name of a step that runs once for each item of a loop.

    Args:
        turns: The item's number, from 0; in loops in loops those of all, from the outside.
    """
    return "-".join([name, *(f"{turn:03}" for turn in turns)])


def without_index(name: str) -> str:
    """Returns the name that a step shares with the others of its loop, or loops."""
    return re.sub(r"(-\d{3,})+$", "", name)
