"""What the embedded runner's listeners are handed, made into lines."""

from collections.abc import Callable


def line_by_line(listen: Callable[[str, str], object]) -> Callable[[str, str], None]:
    """Returns a listener that calls another with a replica and one line at a time."""

    def each(replica: str, lines: str) -> None:
        for line in lines.split("\n"):
            listen(replica, line)

    return each
