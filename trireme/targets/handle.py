"""Runs from Python: ``run = trireme.run("pytorch-training", workers=1)``."""

import html
import io
import logging
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from trireme.compiling.loading import asked, ready
from trireme.errors import InputError, TriremeError
from trireme.pages import REPORT
from trireme.pipeline import program
from trireme.plain import plain
from trireme.process import extras
from trireme.targets import base, listing, registry
from trireme.targets.base import Step, Target
from trireme.targets.meant import LATEST, meant
from trireme.terminal.console import Console
from trireme.terminal.engine_lines import KfpLines
from trireme.terminal.tables import lines
from trireme.text.say import say
from trireme.tracking import store
from trireme.tracking.client import every
from trireme.tracking.journal import TRAINING

if TYPE_CHECKING:
    import pandas as pd

OVER = (*base.ENDED, "lost")
_FIT = "this.style.height = this.contentDocument.documentElement.scrollHeight + 1 + 'px'"


@extras.explained()
def run(
    pipeline: Any,
    /,
    *,
    data: str | os.PathLike[str] = "",
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
    """Starts a run of a pipeline or a program, here in a process of its own; returns at once.

    Args:
        pipeline: A function with ``@dsl.pipeline``; or a name, FILE.py, FILE.py:FUNCTION, YAML
            that kfp compiled, or a training program, FILE.py, whose arguments are ``args``.
        data: The dataset: a path, a URI or @NAME of trireme.yaml.
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
    opened = _opened(target, more)
    clustered: dict[str, Any] = {
        "dataset_claims": dataset_claims,
        "cache_claim": cache_claim,
        "images": Path(images) if images else None,
        "storage_class": storage_class,
        "shape": Path(shape) if shape else None,
    }
    if opened.is_here and any(clustered.values()):
        raise InputError(
            "dataset_claims, cache_claim, images, storage_class and shape need target "
            + " or ".join(map(repr, registry.CLUSTERS))
        )
    variables = {"env": dict(env or {}), "secret_env": dict(secret_env or {})}
    job = {name: value for name, value in variables.items() if value}
    chosen, values = asked(pipeline, parallelism=parallelism, **clustered)
    passed = {name: _plain(value) for name, value in {**more, **(parameters or {})}.items()}
    connect = None if opened.is_here else opened.cluster
    values |= chosen.accept(program.named(os.fspath(data)) | passed, connect)
    chosen, arguments = ready(chosen, chosen.with_job(values, job), opened)
    started, note = opened.start(chosen, arguments, chosen.name_of_a_run(), Console(io.StringIO()))
    if note:
        say(f"note: {note}")
    record = os.environ.get("MLFLOW_RUN_ID", "") if opened.is_here else ""
    return RunHandle(opened, started, chosen.graph.step_names, record)


@extras.explained()
def runs(target: str = "local", **options: Any) -> "Runs":
    """Returns the runs of a target, the newest first.

    Args:
        target: local, kfp or argo.
        options: Options of the target, such as ``namespace``.
    """
    opened = _opened(target, options)
    _refuse(target, options)
    return Runs(opened, opened.latest())


@extras.explained()
def get(name: str = LATEST, target: str = "local", **options: Any) -> "RunHandle":
    """Returns a run that there is.

    Args:
        name: As commands take it: its name or the beginning of it, with kfp its id, MODEL@ALIAS for
            the run that a registered model comes from, or latest.
        target: local, kfp or argo.
        options: Options of the target, such as ``namespace``.

    Raises:
        InputError: There is none.
    """
    opened = _opened(target, options)
    _refuse(target, options)
    return RunHandle(opened, opened.find(meant(opened, name)))


def _opened(target: str, options: dict[str, Any]) -> Target[Any]:
    """Opens a target with those of its options that are among some, which are taken out."""
    entry = registry.entry(target)
    own = {
        option.name: options.pop(option.name) for option in entry.options if option.name in options
    }
    opened = registry.open(target, own)
    opened.stays = True
    return opened


def _refuse(target: str, options: Mapping[str, Any]) -> None:
    """Refuses what is no option of a target."""
    if options:
        names = ", ".join(option.name for option in registry.entry(target).options) or "none"
        raise InputError(f"{next(iter(options))}: target {target!r} has the options {names}")


class RunHandle:
    """A run of a pipeline.

    Attributes:
        name: Its name, which the command line knows it by, too.
        tracking_uri: The MLflow that has its record.
    """

    def __init__(
        self, target: Target[Any], base_run: base.Run, steps: Sequence[str] = (), record: str = ""
    ) -> None:
        """Holds a run.

        Args:
            steps: All steps of its pipeline, as far as they are known.
            record: Its id in MLflow, if that is known.
        """
        self.name = base_run.name
        self.tracking_uri = store.uri()
        self._target, self._key, self._names, self._record = target, base_run.key, steps, record
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
        recorded = self._in_mlflow()
        return dict(recorded.data.metrics) if recorded else {}

    @property
    def history(self) -> "pd.DataFrame":
        """The metrics of the training by step, from MLflow: a row a step, a column a metric.

        Where a run has several trainings, as a sweep has, the index has the trial as well.
        """
        from trireme.tracking import history

        recorded = self._in_mlflow()
        if recorded is None:
            raise InputError(f"MLflow at {store.public(self.tracking_uri)} has no run {self.name}")
        return history.of(self._client(), recorded)

    @property
    def model(self) -> str:
        """The registered version as ``models:/NAME/VERSION``, or else where the model's files are.

        MLflow takes either, and the second may be a folder of this machine; empty before there is
        a model.
        """
        recorded, workspace = self._in_mlflow(), self._look()[0].workspace
        tags = recorded.data.tags if recorded else {}
        if "model.version" in tags:
            return f"models:/{tags['model']}/{tags['model.version']}"
        for folder in (workspace / "exported", workspace / "model") if workspace else ():
            if folder.exists():
                return str(folder)
        return f"runs:/{tags[TRAINING]}/model" if TRAINING in tags else ""

    @property
    def report(self) -> "Report":
        """The picture of the run, which Jupyter shows: a page as ``trireme report`` writes it."""
        from trireme.report import page
        from trireme.targets import picturing

        with self._one_at_a_time, _mlflow_as_it_was():
            picture = picturing.picture(self._target, self._key)
        picture.links = {what: url for what, url in picture.links.items() if "://" in url}
        picture.close()
        return Report(page.render(picture, is_framed=True))

    @property
    def model_report(self) -> "Report":
        """The report on the model, which Jupyter shows."""
        workspace = self._look()[0].workspace
        file = workspace / REPORT if workspace else self._downloaded_report()
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
        started = {step.name for step in steps} | {step.loop for step in steps}
        rows = [*steps, *(Step(name) for name in self._names if name not in started)]
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
        display = notebook.display(notebook.HTML(self._repr_html_()), display_id=True)

        def update() -> None:
            with suppress(TriremeError):  # what is shown stays
                while True:
                    is_over = self.status in OVER
                    display.update(notebook.HTML(self._repr_html_()))
                    if is_over:
                        return
                    time.sleep(self._pause)

        if display is not None:
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
        # Two must not both set up a new SQLite store. What loading MLflow warns of, such as that a
        # notebook has no widgets for bars, is nothing that the notebook's owner has done.
        with silent, FileLock(home() / "mlflow.lock"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mlflow import MlflowClient

            return MlflowClient(self.tracking_uri)

    def _in_mlflow(self) -> Any:
        """Returns the MLflow run of the pipeline; None before it is open."""
        client = self._client()
        if self._record:
            return client.get_run(self._record)
        experiments = [experiment.experiment_id for experiment in every(client.search_experiments)]
        records = client.search_runs(experiments, f"attributes.run_name = '{self.name}'")
        recorded = next(
            (record for record in records if "mlflow.parentRunId" not in record.data.tags), None
        )
        if recorded:
            self._record = recorded.info.run_id
        elif not self._target.is_here and self.status in OVER:
            raise InputError(
                f"MLflow at {store.public(self.tracking_uri)} has no run {self.name}; set "
                "MLFLOW_TRACKING_URI to the server that has it before the run is started"
            )
        return recorded

    def _downloaded_report(self) -> Path | None:
        """Returns the report of a run on a cluster, which MLflow has with one of its steps."""
        recorded = self._in_mlflow()
        client, above = self._client(), [recorded] if recorded else []
        while above:  # Kubeflow's plugin opens runs for conditions, too
            nested = f"tags.`mlflow.parentRunId` = '{above.pop().info.run_id}'"
            for child in client.search_runs([recorded.info.experiment_id], nested):
                above.append(child)
                if any(file.path == REPORT for file in client.list_artifacts(child.info.run_id)):
                    folder = tempfile.mkdtemp(prefix="trireme-")
                    return Path(client.download_artifacts(child.info.run_id, REPORT, folder))
        return None


class Runs(list[RunHandle]):
    """Runs as a list, which is shown as a table of what they were when they were asked for."""

    def __init__(self, target: Target[Any], base_runs: Sequence[base.Run]) -> None:
        super().__init__(RunHandle(target, base_run) for base_run in base_runs)
        self._table = listing.rows(listing.run_list(target, base_runs).runs)

    def __repr__(self) -> str:
        return "\n".join(lines(*self._table)) or "no runs"

    def _repr_html_(self) -> str:
        head, rows = self._table
        return _table([[name.lower() for name in head], *rows]) if rows else "no runs"


class Report(str):
    """A page of HTML, which Jupyter shows."""

    def __repr__(self) -> str:
        return f"<report of {len(self):,} characters of HTML>"

    def _repr_html_(self) -> str:
        """Returns the page in a frame as high as the page, where the notebook runs scripts."""
        page = html.escape(self)
        return (
            f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0" '
            f'onload="{_FIT}"></iframe>'
        )


@contextmanager
def _mlflow_as_it_was() -> Iterator[None]:
    """Takes back what work in this process has MLflow use, and how it has it log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow

    loggers = [logging.getLogger(name) for name in ("alembic", "mlflow")]
    levels = [logger.level for logger in loggers]
    with patch.dict(os.environ):
        uri = os.environ.pop("MLFLOW_TRACKING_URI", None)  # else that counts as set by a call
        current = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
        if uri is not None:
            os.environ["MLFLOW_TRACKING_URI"] = uri
        try:
            yield
        finally:
            mlflow.set_tracking_uri(current)
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


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
