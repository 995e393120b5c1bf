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
    said = [line.strip() for line in lines if line.strip()]
    if TRACEBACK in said:
        how = f"failed: {said[-1]}"
    return TriremeError(f"step {step} {how}", "\n".join(lines[-SHOWN:]))
