"""The result of a run here, and where its things are."""

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.errors import TrackingUnavailable, TriremeError
from trireme.finish import outcome
from trireme.targets.local import runs
from trireme.tracking.runs import PAGE

if TYPE_CHECKING:
    from trireme.terminal.console import Console


@dataclass
class Result:
    """How a run ended, and whether MLflow's UI is to be started."""

    name: str
    directory: Path
    record: runs.Record
    status: str = "FINISHED"
    exit_status: int = 0
    error: TriremeError | None = None
    run_id: str = ""
    mlflow_page: str = ""
    needs_ui: bool = False
    temporary: str = ""

    @property
    def workspace(self) -> Path:
        """The run workspace."""
        return self.directory / "workspace"

    @property
    def facts(self) -> dict[str, str]:
        """What has come of it, in a person's words."""
        facts = outcome.facts(self.workspace)
        if (picture := self.workspace / PAGE).exists():
            facts["Picture"] = str(picture)
        facts["Run"] = str(self.directory)
        if self.status != "FINISHED":
            facts["Resume"] = f"{_this_command()} resume {self.name}"
        if self.mlflow_page:
            start_it = f" (start it with: {_this_command()} ui)" if self.needs_ui else ""
            facts["MLflow"] = self.mlflow_page + start_it
        return facts

    def show(self, console: "Console") -> None:
        """Shows how it ended."""
        console.print()
        console.heading(f"{self.name} {self.status}")
        console.facts(self.facts)

    def fail(self, error: TriremeError) -> None:
        """Makes this the result of a run that failed; the first failure counts."""
        if self.error is None:
            self.error, self.status, self.exit_status = error, "FAILED", error.exit_status

    def mend(self) -> None:
        """Makes this the result of a run that has failed at nothing but its way to MLflow."""
        if isinstance(self.error, TrackingUnavailable):
            self.error, self.status, self.exit_status = None, "FINISHED", 0


def _this_command() -> str:
    """Returns what a person types to call this program again."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return "python -m trireme"
    installed = shutil.which("trireme")
    is_found = installed and program.resolve() == Path(installed).resolve()
    if is_found or program.name != "trireme" or "/" not in sys.argv[0]:
        return "trireme"
    path = min(os.path.relpath(program), str(program.absolute()), key=len)
    return shlex.quote(path if "/" in path else f"./{path}")
