"""Questions that are asked in the background, by whoever cannot wait for the answer."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from trireme.errors import TriremeError

Answer = TypeVar("Answer")


class Background(Generic[Answer]):
    """A question that a thread of its own waits for; a process that ends does not."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        """Begins to ask."""
        self._ask = ask
        self._error: TriremeError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or a reason why there is none."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Waits until there is one or the other."""
        self._thread.join()

    def answer(self) -> Answer:
        """Waits for the answer and returns it; raises why there is none."""
        self.wait()
        if self._error:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except TriremeError as error:
            self._error = error
        except Exception as error:  # such as of an answer that is none: no job ends for that
            self._error = TriremeError(f"{type(error).__name__}: {error}")
