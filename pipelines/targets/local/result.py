"""How a run here ended, and where its things are."""

import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.components.cost.table import in_words
from trireme.components.errors import TrackingUnavailable, TriremeError
from trireme.components.tracking import journal
from trireme.components.training.advice import TAG as ADVICE
from trireme.pipelines.targets.local import runs

if TYPE_CHECKING:
    from trireme.pipelines.console import Console


@dataclass
class Result:
    """How a run ended, what its steps said, and whether MLflow's UI is to be started."""

    name: str
    directory: Path
    record: runs.Record
    status: str = "FINISHED"
    exit_status: int = 0
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    error: TriremeError | None = None
    run_id: str = ""
    mlflow_page: str = ""
    needs_ui: bool = False
    temporary: str = ""
    model_version: str = ""

    @property
    def workspace(self) -> Path:
        """The run workspace."""
        return self.directory / "workspace"

    @property
    def facts(self) -> dict[str, str]:
        """What has come of it, in a person's words."""
        said: dict[str, Any] = {}
        for record in (record for records in self.steps.values() for record in records):
            said |= record.get("headline", {}) | record.get("total", {}) | record.get("tags", {})
        facts = {}
        for name, value in said.items():
            if name.startswith("held_out_"):
                from trireme.components.evaluation.figures import words

                figure = words(name.removeprefix("held_out_"))
                digits = ".4f" if figure == "accuracy" else ".4g"
                facts[figure[0].upper() + figure[1:]] = f"{value:{digits}} on held-out samples"
        exported, model = self.workspace / "exported", self.workspace / "model"
        if exported.exists():
            facts["Model"] = str(exported)
        elif model.exists():
            facts["Model"] = str(model)
            # Of a pipeline without an export a good model is not exported either.
            is_refused = journal.summary_of(self.workspace, "evaluate").startswith("not exported")
            if is_refused and not self.error:
                facts["Not exported"] = said["gate"]
        if "verdict" in said:
            facts["Verdict"] = said["verdict"]
        if "cost" in said:
            facts["Cost"] = in_words(said["cost"], said["currency"])
        if lines := said.get(ADVICE, "").splitlines():
            more = f"; {len(lines) - 1} more in the report" if lines[1:] else ""
            facts["Advice"] = lines[0] + more
        if self.model_version:
            facts["Registered"] = self.model_version
            if (form := journal.summary_of(self.workspace, "export")).startswith("kept as plain"):
                way_out = "save an MLflow model, or name model_factory=module:_load_pyfunc"
                facts["Form"] = f"{form}; {way_out}"
        report = self.workspace / "report.html"
        if report.exists():
            facts["Report"] = str(report)
        facts["Run"] = str(self.directory)
        if self.mlflow_page:
            start_it = f" (start it with: {_this_command()} ui)" if self.needs_ui else ""
            facts["MLflow"] = self.mlflow_page + start_it
        return facts

    def show(self, console: "Console") -> None:
        """Shows how it ended."""
        console.print()
        console.print(f"{self.name} {self.status}", "bold")
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
    if Path(sys.argv[0]).name == "__main__.py":
        return "python -m trireme"
    return shlex.quote(os.path.relpath(sys.argv[0])) if "/" in sys.argv[0] else "trireme"
