"""Trials that are stopped early, because others were better at the same point."""

import contextlib
import math
import re
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trireme.errors import JobFailed
from trireme.observers.base import Job, Observer
from trireme.observers.printed.names import name_of
from trireme.observers.printed.reader import Reader
from trireme.strict_model import StrictModel
from trireme.tracking import environment

if TYPE_CHECKING:
    from optuna.trial import Trial

MINIMIZED = ("loss", "error", "mse", "mae", "rmse", "perplexity")
"""How the names of figures end that are the better the smaller they are."""

EVERY = 1.0  # seconds between two reports
ASK_EVERY = 10.0  # seconds between two questions to MLflow
PATIENCE = 10.0  # seconds that the last report may take


class EarlyStopping(StrictModel):
    """How the trials of a sweep are stopped early.

    Each time that a trial's program prints the metric or logs it to MLflow, it is compared with
    what other trials had after as many times. https://optuna.readthedocs.io has the pruners.
    """

    metric: Annotated[str, Field(min_length=1)]
    """Its name as programs print it, in lines such as ``loss 0.5`` or ``'loss': 0.5``, or log it
    to MLflow."""

    goal: Literal["maximize", "minimize"] | None = None
    """By default a metric is maximized unless its name ends with loss, error, mse, mae, rmse or
    perplexity."""

    pruner: Literal["median", "hyperband"] = "median"
    """median: a trial that is worse than the median of the others ends, once five have come to
    their end; hyperband: of the trials that got so far the best third goes on, at several points,
    once one has come to its end."""

    @property
    def is_minimized(self) -> bool:
        """Whether less of the metric is better."""
        if self.goal:
            return self.goal == "minimize"
        return self.metric.lower().endswith(MINIMIZED)


def read(options: dict[str, Any]) -> EarlyStopping | None:
    """Returns what a pipeline's parameter says; None where it is empty."""
    return EarlyStopping.read("early_stopping", options) if options else None


class StoppedEarly(JobFailed):
    """A trial is worse than others were at the same point."""


class Watch(Observer):
    """Reports what the program of a trial says of the metric, and ends it where that is bad.

    Lines come from the thread that reads them; another one reports them, as the study's file and
    MLflow may keep it waiting.
    """

    def __init__(self, how: EarlyStopping, trial: "Trial") -> None:
        self._how, self._trial = how, trial
        self._printed: deque[float] = deque()
        self._has_printed, self._reported = False, 0
        self._asked = time.monotonic()
        self.why = ""
        """Why it is to be stopped, if it is."""
        self.leader = ""
        """The replica whose lines tell."""
        self.told: set[str] = set()
        """Names like that of the metric that they have told."""
        called = name_of(how.metric)
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._reader, self._name = Reader([called]), called
        self._word = re.split(r"[_ /]", called)[-1]

    def lines(self, replica: str, text: str) -> None:
        """Takes in lines of the leading replica; of a progress bar, its last state."""
        if replica != self.leader:
            return
        for line in text.split("\n"):
            if self._word not in line.lower() and not self._reader.place.table:
                continue  # most lines
            reading = self._reader.read(line)
            if reading:
                self.told.update(name for name in reading.metrics if self._word in name)
            if reading and self._name in reading.metrics:
                self._printed.append(reading.metrics[self._name])
                self._has_printed = True

    @property
    def has_found(self) -> bool:
        """Whether the trial's program has ever told the metric."""
        return self._has_printed or self._reported > 0

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return self._how.metric

    def tick(self, job: Job) -> None:
        """Ends the trial if it is to be stopped.

        Raises:
            StoppedEarly: It is not worth going on with.
        """
        if not self._thread.ident:
            self._thread.start()
        if self.why:
            raise StoppedEarly(self.why)

    def end(self, failure: BaseException | None) -> None:
        """Reports the rest, for the trials that begin later."""
        self._has_ended.set()
        if self._thread.ident:
            self._thread.join(PATIENCE)

    def report(self) -> None:
        """Reports what is new, and finds out whether the trial is to be stopped."""
        if self._has_printed:
            values = [self._printed.popleft() for _ in range(len(self._printed))]
        else:
            values = self._logged()
        for value in values:
            # The study maximizes; what is no number is as bad as can be.
            good = -value if self._how.is_minimized else value
            if _is_reported(self._reported):
                self._trial.report(good if math.isfinite(good) else -math.inf, self._reported)
            self._reported += 1
        if values and self._trial.should_prune():
            self.why = (
                f"{self._how.metric} {values[-1]:g} at report {self._reported} is worse than that "
                "of others"
            )

    def _work(self) -> None:
        is_last = False
        while not (is_last or self.why):
            is_last = self._has_ended.wait(EVERY)
            # Whatever is wrong with the study's file or MLflow, the trial goes on.
            with contextlib.suppress(Exception):
                self.report()

    def _logged(self) -> list[float]:
        """Returns what is new of the metric in the training's MLflow run."""
        now, run = time.monotonic(), environment.variables()
        if not run or (now < self._asked + ASK_EVERY and not self._has_ended.is_set()):
            return []
        from mlflow import MlflowClient

        self._asked = now
        # In a pod it may be that of the environment alone, for its login.
        client = MlflowClient(run.get("MLFLOW_TRACKING_URI"))
        history = client.get_metric_history(run["MLFLOW_RUN_ID"], self._how.metric)
        return [metric.value for metric in history[self._reported :]]


def _is_reported(number: int) -> bool:
    """Tells whether a value is, by its number: of very many every tenth, of more the hundredth."""
    # Each is a line in a file that all trials read, and pruners compare values of equal numbers.
    return number % 10 ** max(0, len(str(number)) - 2) == 0
