"""Runs from Python: ``run = trireme.run("pytorch-training", workers=1)``."""

import html
import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from trireme.compiling.loading import loaded, ready
from trireme.errors import InputError, TriremeError
from trireme.plain import plain
from trireme.process import extras
from trireme.targets import base, registry
from trireme.targets.base import Step, Target
from trireme.terminal.console import Console
from trireme.terminal.engine_lines import KfpLines
from trireme.text.say import say
from trireme.tracking import store
from trireme.tracking.client import every
from trireme.tracking.journal import TRAINING

OVER = (*base.ENDED, "lost")
REPORT = "report.html"


@extras.explained()
def run(
    pipeline: Any,
    /,
    *,
    target: str = "local",
    parameters: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
    dataset_claims: Sequence[str] = (),
    cache_claim: str = "",
    images: str | os.PathLike[str] | None = None,
    parallelism: int | None = None,
    storage_class: str = "",
    shape: str | os.PathLike[str] | None = None,
    **more: Any,
) -> "RunHandle":
    """Starts a run of a pipeline, here in a process of its own, and returns at once.

    Args:
        pipeline: A function with ``@dsl.pipeline``; or a name, FILE.py, FILE.py:FUNCTION, or YAML
            that kfp compiled.
        target: Where it runs: local, kfp or argo.
        parameters: Parameters of the pipeline that have the name of another argument.
        env: Variables of the training program.
        secret_env: Likewise, each from SECRET/KEY.
        dataset_claims: On a cluster: PVCs for ``dataset_uri`` pvc://CLAIM/path.
        cache_claim: On a cluster: a PVC for datasets that all runs share.
        images: On a cluster: a YAML file that maps image names to images with digests.
        parallelism: Turns of a loop at once, such as trainings of a sweep; on this machine steps
            at once.
        storage_class: On a cluster: the StorageClass of the run's workspace.
        shape: On a cluster: a YAML file with what the pods of steps get.
        more: Options of the target, such as ``namespace``, and parameters of the pipeline.

    Raises:
        InputError: Something that was given cannot work; nothing has been made then.
    """
    entry = registry.entry(target)
    options = {each.name: more.pop(each.name) for each in entry.options if each.name in more}
    place = registry.open(target, options)
    clustered: dict[str, Any] = {
        "dataset_claims": dataset_claims,
        "cache_claim": cache_claim,
        "images": Path(images) if images else None,
        "storage_class": storage_class,
        "shape": Path(shape) if shape else None,
    }
    if place.is_here and any(clustered.values()):
        raise InputError(
            "dataset_claims, cache_claim, images, storage_class and shape need target "
            + " or ".join(map(repr, registry.CLUSTERS))
        )
    (chosen,) = loaded([pipeline], parallelism=parallelism, **clustered)
    given = {name: _plain(value) for name, value in {**more, **(parameters or {})}.items()}
    job = {"env": dict(env or {}), "secret_env": dict(secret_env or {})}
    accepted = chosen.accept(given, None if place.is_here else place.cluster)
    values = chosen.with_job(accepted, {name: job[name] for name in job if job[name]})
    chosen, arguments = ready(chosen, values, place)
    place.stays = True
    started, note = place.start(chosen, arguments, chosen.name_of_a_run(), Console(io.StringIO()))
    if note:
        say(f"note: {note}")
    return RunHandle(place, started, chosen.graph.step_names)


class RunHandle:
    """A run that was started from Python.

    Attributes:
        name: Its name, which the command line knows it by, too.
        tracking_uri: The MLflow that has its record.
    """

    def __init__(self, target: Target[Any], started: base.Run, steps: Sequence[str]) -> None:
        self.name = started.name
        self.tracking_uri = store.uri()
        self._target, self._key, self._names = target, started.key, steps
        self._record = os.environ.get("MLFLOW_RUN_ID", "") if target.is_here else ""
        self._one_at_a_time = threading.Lock()
        self._live: threading.Thread | None = None

    @property
    def status(self) -> str:
        """FINISHED, FAILED or KILLED; before that running, pending or stopping; or lost."""
        return self._look()[0].state

    @property
    def steps(self) -> list[Step]:
        """The steps that have begun, in order: name, state, seconds and result."""
        return self._look()[1]

    @property
    def metrics(self) -> dict[str, float]:
        """What MLflow has measured of the whole run; empty before it has anything."""
        found = self._in_mlflow()
        return dict(found.data.metrics) if found else {}

    @property
    def model(self) -> str:
        """The registered version as ``models:/NAME/VERSION``, or else where the model's files are.

        MLflow takes either, and the second may be a folder of this machine; empty before there is
        a model.
        """
        found, place = self._in_mlflow(), self._look()[0].workspace
        tags = found.data.tags if found else {}
        if "model.version" in tags:
            return f"models:/{tags['model']}/{tags['model.version']}"
        for folder in (place / "exported", place / "model") if place else ():
            if folder.exists():
                return str(folder)
        return f"runs:/{tags[TRAINING]}/model" if TRAINING in tags else ""

    @property
    def report(self) -> "Report":
        """The report on the model, which Jupyter shows."""
        place = self._look()[0].workspace
        file = place / REPORT if place else self._downloaded_report()
        if not file or not file.exists():
            raise InputError(f"run {self.name} has no report; evaluate, one of its steps, makes it")
        return Report(file.read_text())

    def wait(self) -> Self:
        """Waits until the run has ended, in a notebook with a table of its steps.

        Ctrl-C, or a notebook's "interrupt", ends a run on this machine; one on a cluster goes on.

        Raises:
            TriremeError: The run has failed or was cancelled, in its own words.
        """
        if _is_notebook() and not (self._live and self._live.is_alive()):
            self._show()
        try:
            while self.status not in OVER:
                time.sleep(self._pause)
        except KeyboardInterrupt:
            if self._target.is_here:
                with suppress(TriremeError):  # it has just ended
                    self.cancel()
            else:
                say(f"{self.name} goes on; its method cancel() would end it")
            raise
        if self._live:
            self._live.join()
        with self._one_at_a_time:
            error = self._target.error(self._target.find(self._key))
        if error:
            raise error
        return self

    def logs(self, step: str = "") -> str:
        """Returns what the steps have printed so far, each line with its step; or one of them."""
        lines: list[str] = []
        kfps = KfpLines()

        def on_line(name: str, line: str) -> None:
            if not kfps.are(name, line):
                lines.append(f"[{name}] {plain(line)}\n")

        self._target.logs(self._key, step, on_line, follow=False)
        return "".join(lines)

    def cancel(self) -> None:
        """Ends the run; what it has left stays."""
        self._target.cancel(self._key)

    def __repr__(self) -> str:
        return f"<run {self.name}: {self.status}>"

    def _repr_html_(self) -> str:
        run, steps = self._look()
        begun = {step.name for step in steps} | {step.loop for step in steps}
        rows = [*steps, *(Step(name) for name in self._names if name not in begun)]
        cells = [
            (step.name, step.state, f"{step.seconds:.0f} s" if step.seconds else "", step.result)
            for step in rows
        ]
        return f"<b>{html.escape(run.name)}: {run.state}</b>" + _table(
            [("step", "state", "time", "result"), *cells]
        )

    def _ipython_display_(self) -> None:
        self._show()

    def _show(self) -> None:
        """Shows the table of steps, in a notebook live."""
        notebook = import_module("IPython.display")  # the notebook's own
        shown = notebook.display(notebook.HTML(self._repr_html_()), display_id=True)

        def update() -> None:
            with suppress(TriremeError):  # what is shown stays
                while True:
                    is_over = self.status in OVER
                    shown.update(notebook.HTML(self._repr_html_()))
                    if is_over:
                        return
                    time.sleep(self._pause)

        if shown is not None:
            self._live = threading.Thread(target=update, daemon=True)
            self._live.start()

    @property
    def _pause(self) -> float:
        return 0.5 if self._target.is_here else 2.0

    def _look(self) -> tuple[base.Run, list[Step]]:
        with self._one_at_a_time:
            run = self._target.find(self._key)
            return run, self._target.told(run)

    def _client(self) -> Any:
        from filelock import FileLock

        from trireme.files.home import home

        store.check_reachable(self.tracking_uri)
        silent = patch.dict(os.environ, MLFLOW_DISABLE_TELEMETRY="true")
        # Two must not both set up a new SQLite store.
        with silent, FileLock(home() / "mlflow.lock"):
            from mlflow import MlflowClient

            return MlflowClient(self.tracking_uri)

    def _in_mlflow(self) -> Any:
        """Returns the MLflow run of the pipeline; None before it is open."""
        client = self._client()
        if self._record:
            return client.get_run(self._record)
        experiments = [each.experiment_id for each in every(client.search_experiments)]
        found = client.search_runs(experiments, f"attributes.run_name = '{self.name}'")
        whole = next((each for each in found if "mlflow.parentRunId" not in each.data.tags), None)
        if whole:
            self._record = whole.info.run_id
        elif not self._target.is_here and self.status in OVER:
            raise InputError(
                f"MLflow at {store.public(self.tracking_uri)} has no run {self.name}; set "
                "MLFLOW_TRACKING_URI to the server that has it before the run is started"
            )
        return whole

    def _downloaded_report(self) -> Path | None:
        """Returns the report of a run on a cluster, which MLflow has with one of its steps."""
        whole = self._in_mlflow()
        client, above = self._client(), [whole] if whole else []
        while above:  # Kubeflow's plugin opens runs for conditions, too
            nested = f"tags.`mlflow.parentRunId` = '{above.pop().info.run_id}'"
            for each in client.search_runs([whole.info.experiment_id], nested):
                above.append(each)
                if any(file.path == REPORT for file in client.list_artifacts(each.info.run_id)):
                    folder = tempfile.mkdtemp(prefix="trireme-")
                    return Path(client.download_artifacts(each.info.run_id, REPORT, folder))
        return None


class Report(str):
    """A page of HTML, which Jupyter shows."""

    def __repr__(self) -> str:
        return f"<report of {len(self):,} characters of HTML>"

    def _repr_html_(self) -> str:
        page = html.escape(self)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{html.escape(plain(cell))}</td>" for cell in row) for row in rows)
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _plain(value: Any) -> Any:
    """Returns a value as a parameter has it: paths are texts, and tuples lists."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value


def _is_notebook() -> bool:
    """Tells whether a notebook shows what this process displays."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")
