"""Lines that engines add to the log of a step: kfp what its executor was given, and Argo."""

import re
from collections.abc import Callable

from trireme.plain import plain
from trireme.runner.lines import LinePrinter

_ARGO = re.compile(r"time=\S+ level=(?:DEBUG|INFO) msg=.* argo=true(?: |$)", re.I)
"""What argoexec, which starts a step's program, says of its own work, from v3.6 to v4.1:
https://github.com/argoproj/argo-workflows/blob/v4.1.2/cmd/argoexec/commands/root.go"""


class KfpLines:
    """Tells kfp's lines from a step's own, of any number of steps at a time."""

    def __init__(self) -> None:
        self._in_what_was_given: set[str] = set()

    def are(self, step: str, line: str) -> bool:
        """Tells whether the next line of a step is kfp's."""
        if line.startswith("[KFP Executor"):
            if line.endswith("executor_input:"):
                self._in_what_was_given.add(step)
            return True
        inside = step in self._in_what_was_given
        if line == "}":
            self._in_what_was_given.discard(step)
        return inside


class StepLines(LinePrinter):
    """Prints the lines of steps, but for kfp's and Argo's."""

    def __init__(self, written: Callable[[str, str], str] | None = None) -> None:
        """Starts with nothing printed; what nobody reads is not worth printing."""
        super().__init__(plain, needs_reader=True, written=written)
        self._kfps = KfpLines()

    def __call__(self, step: str, line: str) -> None:
        """Prints a line of a step; see ``LinePrinter``."""
        if not (self._kfps.are(step, line) or _ARGO.match(line)):
            super().__call__(step, line)
