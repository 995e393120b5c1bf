"""The outcome of a run, as its steps have recorded it."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trireme.cost.table import in_words
from trireme.errors import TriremeError
from trireme.evaluation.figure_names import words
from trireme.files.home import in_a_pod
from trireme.observers.advice import TAG as ADVICE
from trireme.observers.goodput import ledger
from trireme.tracking import environment, journal, store
from trireme.tracking.registry import CHALLENGER, CHAMPION, NO_CHAMPION

NOT_EXPORTED = "not exported"
"""What the result of evaluate begins with where its gate has refused the model."""

HELD_OUT = "on held-out samples"

NEXT = {
    CHAMPION: "trireme serve {model}",
    CHALLENGER: "trireme models {model}; trireme promote {model} {version} takes it all the same",
}
"""What a person may do with a model, by what it is now."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        status: FINISHED, FAILED or KILLED.
        against: One sentence on how the model does against the champion; empty where there is
            none.
        alias: What it is now: ``champion`` or ``challenger``.
    """

    pipeline: str
    run: str
    status: str
    reason: str = ""
    against: str = ""
    model: str = ""
    version: str = ""
    alias: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    page: str = ""

    @property
    def sentence(self) -> str:
        """All of it that a person wants to know first."""
        registered = f"{self.model} version {self.version} is {self.alias}" if self.model else ""
        said = "; ".join(filter(None, [registered, self.reason, self.against]))
        return ": ".join(filter(None, [f"{self.name} {self.status}", said]))

    @property
    def name(self) -> str:
        """The run's name, in which the pipeline's is also where an engine has given it an id."""
        return heading(self.pipeline, self.run)

    @property
    def message(self) -> dict[str, Any]:
        """It as JSON; ``text`` is what chats such as Slack's show."""
        return {"text": f"{self.sentence} {self.page}".strip()} | asdict(self)


def heading(pipeline: str, run: str) -> str:
    """Returns a run's name, with the pipeline's where that is not in it."""
    return run if pipeline in run else f"{pipeline} {run}"


def read(workspace: Path, pipeline: str, run: str, status: str, message: str) -> Outcome:
    """Returns what came of a run.

    Args:
        message: What kfp says of a failure, for where no step has said why.
    """
    said: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    for record in journal.read_all(workspace):
        error = record.get("error", {})
        said |= record.get("tags", {}) | (error if error.get("is_fatal") else {})
        metrics |= record.get("headline", {})
    failed = status != "FINISHED"
    page = _page()  # which is there when all that the steps before have recorded is in MLflow
    registered = journal.registered(workspace)
    late = registered.pop("late", "")
    return Outcome(
        pipeline=pipeline,
        run=run,
        status=status,
        reason=said.get("message", message)
        if failed
        else said.get("verdict", said.get("gate", "")),
        against="" if failed else late or said.get("champion", ""),
        metrics=metrics,
        page=page,
        **registered,
    )


def facts(workspace: Path) -> dict[str, str]:
    """Returns what came of a run, in a person's words."""
    figures: dict[str, float] = {}
    totals: dict[str, float] = {}
    said: dict[str, str] = {}
    for record in journal.read_all(workspace):
        figures |= record.get("headline", {})
        totals |= record.get("total", {})
        said |= record.get("tags", {})
    found = {}
    for name, value in figures.items():
        if name.startswith("held_out_"):
            figure = words(name.removeprefix("held_out_"))
            digits = ".4f" if figure == "accuracy" else ".4g"
            found[figure[0].upper() + figure[1:]] = f"{value:{digits}} {HELD_OUT}"
    folders = (workspace / "exported", workspace / "model")
    there = (folder for folder in folders if folder.exists() and any(folder.iterdir()))
    if not in_a_pod() and (model := next(there, None)):
        found["Model"] = str(model)
    # Of a pipeline without an export a good model is not exported either.
    if journal.summary_of(workspace, "evaluate").startswith(NOT_EXPORTED):
        found["Not exported"] = said["gate"]
    if "verdict" in said:
        found["Verdict"] = said["verdict"]
    if "cost" in totals and "currency" in said:  # else it is a figure of somebody's own
        found["Cost"] = in_words(totals["cost"], said["currency"])
    if of := ledger.from_metrics(totals, said.get("currency", "")):
        found["Goodput"] = ledger.sentence(of)
    if lines := said.get(ADVICE, "").splitlines():
        more = f"; {len(lines) - 1} more in the report" if lines[1:] else ""
        found["Advice"] = lines[0] + more
    if registered := journal.registered(workspace):
        found["Registered"] = "{model}, version {version}, {alias}".format(**registered)
        against = registered.get("late") or said.get("champion", "")
        if against and against != NO_CHAMPION:
            found["Champion"] = against
        found["Next"] = NEXT[registered["alias"]].format(**registered)
        if (form := journal.summary_of(workspace, "export")).startswith("kept as plain"):
            way_out = "save an MLflow model, or name model_factory=module:_load_pyfunc"
            found["Form"] = f"{form}; {way_out}"
    report = workspace / "report.html"
    if report.exists() and not in_a_pod():
        found["Report"] = str(report)
    return found | (_on_a_server(report.exists(), workspace) if in_a_pod() else {})


def in_a_line(workspace: Path) -> str:
    """Returns what came of a run in a few words, for a list of many; empty where nothing did."""
    try:
        found = facts(workspace)
    except (TriremeError, OSError, ValueError, LookupError):  # files that a fault has damaged
        return ""
    if "Registered" not in found:
        return found.get("Not exported") or found.get("Verdict", "")
    figures = [f"{name} {said}" for name, said in found.items() if said.endswith(HELD_OUT)]
    return "; ".join([found["Registered"], *figures[:1]])


def _on_a_server(has_report: bool, workspace: Path) -> dict[str, str]:
    """Returns where MLflow has a run, and the report on its model."""
    if not (page := _page()):
        return {}
    file = journal.run_path(workspace, "evaluate")
    if not (has_report and file.exists()):
        return {"MLflow": page}
    report = f"{page.rpartition('/runs/')[0]}/runs/{file.read_text()}/artifacts/report.html"
    return {"Report": report, "MLflow": page}


def last_lines(workspace: Path) -> str:
    """Returns the last lines of what a run has failed with; empty where nobody has kept them."""
    fatal = [
        each["error"]["detail"]
        for each in journal.read_all(workspace)
        if "error" in each and each["error"]["is_fatal"]
    ]
    return str(fatal[-1]) if fatal else ""


def _page() -> str:
    try:
        found = environment.variables()
        if "MLFLOW_RUN_ID" not in found:
            return ""
        from trireme.tracking import sync

        uri = os.environ.get("MLFLOW_TRACKING_URI") or found.get("MLFLOW_TRACKING_URI", "")
        run = sync.pipeline_run()
    except Exception:  # whatever MLflow says is no reason to tell nobody
        return ""
    return store.page_of(uri, found.get("MLFLOW_EXPERIMENT_ID", ""), run)
