"""One MLflow run per pipeline run and a nested one per step, for pipelines that run here.

On Kubeflow its MLflow plugin does this: it opens the runs and gives every step
``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_ID`` and ``MLFLOW_RUN_ID``. Here we do the same.
"""

import json
import os
import shutil
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from trireme.errors import (
    InputError,
    TrackingRefused,
    TrackingUnavailable,
    TriremeError,
    first_line,
)
from trireme.files.home import TRACKER
from trireme.files.whole_file import no_room
from trireme.tracking import journal, runs
from trireme.tracking.batch import log
from trireme.tracking.client import client, hurry
from trireme.tracking.environment import announce
from trireme.tracking.store import (
    check_writable,
    default_uri,
    make,
    page_of,
    public,
    quiet,
    reason_of,
)
from trireme.tracking.sync import StepRun, bring_progress, is_whole, sync

LONGEST = 500  # characters of an experiment's name that MLflow takes


def check(experiment: str) -> None:
    """Refuses a name that no experiment can have."""
    if experiment and not experiment.strip():
        raise InputError(f"experiment {experiment!r}: must be a name, or empty for the default")
    if len(experiment) > LONGEST:
        raise InputError(
            f"experiment: its name has {len(experiment):,} characters; MLflow takes {LONGEST}"
        )


class PipelineRun:
    """The MLflow record of one pipeline run.

    All talk with MLflow happens on one thread of its own, so that neither loading MLflow nor a
    slow server holds up the steps.

    Args:
        experiment: Name of the experiment; empty: the one that MLFLOW_EXPERIMENT_ID names, or
            else one called like the pipeline.
        workspace: The run workspace, which names the MLflow runs from then on: a run that is
            resumed goes on with them.
        began: When the run began, in seconds since the epoch; by default now.
        tags: What else is to be known of it.
    """

    def __init__(
        self,
        name: str,
        experiment: str,
        pipeline: str,
        params: dict[str, Any],
        home: Path,
        workspace: Path,
        began: float | None = None,
        tags: dict[str, str] | None = None,
    ) -> None:
        self._began = began or time.time()
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home)
        check_writable(self.uri)
        self.run_id = os.environ.get("MLFLOW_RUN_ID", "")
        # What MLflow is told below is for this process; and the pipeline's run is not a step's.
        own = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")
        self.inherited = {name: value for name, value in os.environ.items() if name not in own}
        self.experiment_id = self._experiment_name = ""
        self._workspace, self._tags = workspace, tags or {}
        self._steps: dict[str, str] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mlflow")
        self._work: list[Future[None]] = []
        self._problem: TriremeError | None = None
        self._brought: dict[str, float] = {}  # when the progress of a step was brought last
        self._then(self._open, name, experiment, pipeline, params, home)

    @property
    def is_on_a_server(self) -> bool:
        """Whether MLflow is a server, not a database that we write to ourselves."""
        return self.uri.startswith(("http://", "https://"))

    @property
    def _whole(self) -> runs.PipelineRunId:
        return runs.PipelineRunId(self.experiment_id, self.run_id)

    @property
    def page(self) -> str:
        """The run's page in MLflow's UI; empty before the run is open."""
        if not self.experiment_id:
            return ""
        return page_of(self.uri, self.experiment_id, self.run_id)

    def step_started(
        self, step: str, directory: Path, before: Callable[[str], None] | None = None
    ) -> dict[str, str]:
        """Has a run opened for a step; returns at once.

        Args:
            directory: Where the file with the run's variables appears; apart from the
                workspace, so that a full disk there can still be told.
            before: Brings from MLflow what the step wants; called with the experiment's id.

        Returns:
            The environment of the step's process, see
            ``trireme.tracking.environment``.
        """
        file = directory / f"mlflow-{step}" / "run.json"
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.mkdir(parents=True)
        opened = self._then(self._open_step, step, file, before, time.time())
        # The step that waits for the file is told if there will be none.
        opened.add_done_callback(partial(self._tell, file, needs_mlflow=before is not None))
        return self.inherited | {TRACKER: str(file)}

    def step_goes_on(self, step: str) -> None:
        """Brings how far a step's training is into its run, now and then; returns at once."""
        now = time.monotonic()
        if now < self._brought.get(step, 0.0) + journal.PROGRESS_EVERY or self._problem:
            return
        self._brought[step] = float("inf")  # one at a time, however slow the server
        self._thread.submit(self._bring_progress, step)

    def step_ended(
        self, step: str, status: str, workspace: Path, resources: dict[str, float]
    ) -> None:
        """Brings a step's journal into its run and ends that; returns at once."""
        now = int(time.time() * 1000)
        self._then(self._end_step, step, status, workspace, resources, now)

    def step_kept(self, step: str, status: str, resources: dict[str, float]) -> None:
        """Completes the record of a step that had ended before this process began."""
        self._then(self._complete_step, step, status, resources)

    def close(
        self,
        status: str,
        resources: dict[str, float],
        conclude: Callable[[str, runs.PipelineRunId], runs.Conclusion] | None = None,
    ) -> None:
        """Ends the pipeline's run with its true status, after everything else is recorded.

        Args:
            conclude: Returns what MLflow shows of the run, by that status.
        """
        self._then(self._close, status, resources, conclude)
        self._thread.shutdown()
        for work in self._work:
            work.result()

    def _then(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Has something done on MLflow's thread; after a failure, only the run's end."""

        def attempt() -> None:
            if self._problem and work != self._close:
                return
            try:
                work(*arguments)
            except TriremeError as problem:
                self._problem = problem
                hurry()
                raise
            except Exception as error:
                traceback.print_exc()
                if no_room(error):
                    self._problem = TrackingUnavailable(
                        f"no room is left on the disk of MLflow's records: {reason_of(error)}"
                    )
                    raise self._problem from None
                refusal = TriremeError(
                    f"MLflow does not accept the run's record: {reason_of(error)}"
                )
                if work in (self._open, self._open_step):
                    self._problem = refusal
                raise refusal from error

        submitted = self._thread.submit(attempt)
        self._work.append(submitted)
        return submitted

    def _open(
        self, name: str, experiment: str, pipeline: str, params: dict[str, Any], home: Path
    ) -> None:
        # Our own patience decides how long to wait for a server, see client.patiently.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        # A database's artifacts; MLflow would put them below wherever we happen to be started.
        os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = str(home / "mlartifacts")
        import mlflow
        from filelock import FileLock

        quiet()
        mlflow.set_tracking_uri(self.uri)
        try:
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / "mlflow.lock"):  # two must not both set up a new SQLite store
                if self.uri == default_uri(home):
                    make(home)
                file = runs.named_by(self._workspace)
                if file.exists():
                    self.experiment_id, self.run_id = json.loads(file.read_text()).values()
                if self.run_id:
                    at_once = mlflow.MlflowClient()
                    self.experiment_id = at_once.get_run(self.run_id).info.experiment_id
                    at_once.update_run(self.run_id, status="RUNNING")
                    runs.clear_error(self.run_id)
                    runs.describe(self.run_id, pipeline, params)
                else:
                    opened = runs.open_pipeline(pipeline, experiment, name, params, self._began)
                    self.experiment_id, self.run_id = opened
                if self._tags:
                    log(self.run_id, tags=self._tags)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(self._whole._asdict()))
                self._experiment_name = client.get_experiment(self.experiment_id).name
        except client.refusal as error:
            if no_room(error):
                raise
            reason = str(error).replace(self.uri, public(self.uri))
            raise InputError(f"MLflow at {public(self.uri)} refuses: {reason}") from None

    def _open_step(
        self, step: str, file: Path, before: Callable[[str], None] | None, at: float
    ) -> None:
        if before:
            before(self.experiment_id)
        has_begun = journal.run_path(self._workspace, step).exists()
        self._steps[step] = runs.step_run(step, self._workspace, self._whole, at)
        if has_begun:
            runs.clear_error(self._steps[step])
        variables = {
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_EXPERIMENT_ID": self.experiment_id,
            "MLFLOW_EXPERIMENT_NAME": self._experiment_name,
            "MLFLOW_RUN_ID": self._steps[step],
        }
        announce(file, variables, self.run_id)

    def _tell(self, file: Path, opened: Future[None], *, needs_mlflow: bool) -> None:
        problem = self._problem or opened.exception()
        if not problem or file.exists():
            return
        is_away = isinstance(problem, TrackingUnavailable)
        content = {}  # the step's journal keeps what MLflow gets later
        if needs_mlflow or not is_away or isinstance(problem, TrackingRefused):
            status = problem.exit_status if isinstance(problem, TriremeError) else 1
            content = {"error": first_line(problem), "exit_status": str(status)}
        try:
            announce(file, content, self.run_id)
        except OSError:
            shutil.rmtree(file.parent, ignore_errors=True)  # which tells it, too, on a full disk

    def _bring_progress(self, step: str) -> None:
        if step in self._steps:
            bring_progress(self._workspace, step, self._steps[step])
        self._brought[step] = time.monotonic()

    def _end_step(
        self, step: str, status: str, workspace: Path, resources: dict[str, float], at: int
    ) -> None:
        run_id = self._steps[step]
        try:
            sync(workspace, step, StepRun(run_id, self.run_id), resources)
        except Exception:
            status = "FAILED"
            raise
        finally:
            client.set_terminated(run_id, status, at)

    def _complete_step(self, step: str, status: str, resources: dict[str, float]) -> None:
        """Does what another process could not do after the step: it was killed, or MLflow away."""
        run_file = journal.run_path(self._workspace, step)
        if (
            run_file.exists()
            and is_whole(self._workspace, step)
            and client.get_run(run_file.read_text()).info.status != "RUNNING"
        ):
            return
        began, ended = journal.span_of(self._workspace, step)
        self._steps[step] = runs.step_run(step, self._workspace, self._whole, began)
        at = int(1000 * (ended or time.time()))
        self._end_step(step, status, self._workspace, resources, at)

    def _close(
        self,
        status: str,
        resources: dict[str, float],
        conclude: Callable[[str, runs.PipelineRunId], runs.Conclusion] | None,
    ) -> None:
        # A run whose model could not be registered, for instance, has not done what it should.
        incomplete = any(work.done() and work.exception() for work in self._work)
        if status == "FINISHED" and incomplete:
            status = "FAILED"
        if self.experiment_id:
            log(self.run_id, metrics=resources)
            client.set_terminated(self.run_id, status)
            if conclude:
                try:
                    runs.conclude(self.run_id, conclude(status, self._whole))
                except Exception:  # the run has ended, and nothing hangs on what is said of it
                    traceback.print_exc()
