"""How a step has failed that says nothing of it to Trireme: somebody's own."""

from trireme.components.errors import TriremeError, exit_in_words

TRACEBACK = "Traceback (most recent call last):"
SHOWN = 40  # lines at most


def failure(step: str, exit_status: int, lines: list[str]) -> TriremeError:
    """Returns how a step has failed: in the last words of its traceback, if it left one.

    Args:
        step: Its name.
        exit_status: That of its process.
        lines: The last ones that it has printed.
    """
    how = exit_in_words(exit_status)
    if TRACEBACK in lines:
        began = len(lines) - lines[::-1].index(TRACEBACK)
        said = (line for line in lines[began:] if line.strip() and not line.startswith(" "))
        how = f"failed: {next(said, how)}"
    return TriremeError(f"step {step} {how}", "\n".join(lines[-SHOWN:]))
