"""Metrics that training does not wait for; to be copied along with the program."""

import json
import os
import threading
import time
from pathlib import Path


class Metrics:
    """Sends metrics to the MLflow run of the environment, from a thread: training never waits.

    What the server does not take is sent again, at the end too for ``patience`` seconds; what is
    still left then is written to a file.
    """

    def __init__(self, unsent: Path, patience: float = 120.0) -> None:
        self.unsent, self.patience, self.give_up = unsent, patience, float("inf")
        self.waiting: list[tuple[str, float, int, int]] = []
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._send, daemon=True)
        if os.environ.get("MLFLOW_RUN_ID"):
            self.thread.start()

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
        now = int(time.time() * 1000)
        self.waiting += [(name, value, now, step) for name, value in values.items()]

    def close(self) -> None:
        """Waits until everything is sent, or kept in the file."""
        self.give_up = time.monotonic() + self.patience
        self.closed.set()
        if self.thread.ident:
            self.thread.join()

    def _send(self) -> None:
        # Our own loop tries again; MLflow's retries would hold up the end of a cancelled run.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        away = False
        while not self.closed.wait(0 if self.waiting else 1) or self.waiting:
            batch = [Metric(*values) for values in self.waiting[:1000]]
            try:
                if batch:
                    MlflowClient().log_batch(os.environ["MLFLOW_RUN_ID"], metrics=batch)
                del self.waiting[: len(batch)]
                away = False
            except Exception as error:
                if not away:  # without the message, which can hold a password of the server's URL
                    print(f"metrics wait for MLflow: {type(error).__name__}", flush=True)
                away = True
                if time.monotonic() > self.give_up:
                    self.unsent.write_text(json.dumps(self.waiting))
                    print(f"metrics that MLflow never took are in {self.unsent}", flush=True)
                    return
                time.sleep(5)
