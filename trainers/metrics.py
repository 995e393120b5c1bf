"""Metrics that training does not wait for; to be copied along with programs.

They go to MLflow where a run is to be tracked, and to Prometheus where it is to be watched. It
needs mlflow for the one and prometheus_client for the other, and nothing else.
"""

import contextlib
import json
import math
import os
import re
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

UNSENT = "metrics-unsent.jsonl"
"""The file in the folder of checkpoints with the metrics that MLflow has not taken: of each a line,
an object with ``key``, ``value``, ``timestamp`` in milliseconds, and ``step``."""

FIELDS: dict[str, Any] = {"key": str, "value": float, "timestamp": int, "step": int}
UNREADABLE = (ValueError, LookupError, TypeError, OverflowError, RecursionError)

REFUSED = (400, 401, 403, 404)  # what a server answers that will not take them later, either

# https://github.com/kubernetes/kubernetes/blob/v1.31.0/pkg/kubelet/kubelet_pods.go
HOSTS = Path("/etc/hosts")
IN_A_POD = "# Kubernetes-managed hosts file"  # at its start; a variable would not pass through SSH


class MetricsServer:
    """The latest metrics, for Prometheus to fetch at http://HOST:METRICS_PORT/metrics.

    Besides what is logged: the step, the seconds spent on steps so far, and how old the newest
    checkpoint is, all with ``training_`` before their names.

    Args:
        port: The port; on this machine alone where this is no pod.
        checkpoints: The folder of checkpoints.
        pattern: What complete checkpoints are called, as for ``Path.glob``.
    """

    def __init__(self, port: int, checkpoints: Path, pattern: str) -> None:
        import prometheus_client as prometheus

        registry = prometheus.CollectorRegistry()
        self.gauge = partial(prometheus.Gauge, registry=registry)
        self.gauges: dict[str, prometheus.Gauge] = {}
        self.seconds = prometheus.Counter(
            "training_seconds", "Seconds spent on steps.", registry=registry
        )
        age = self.gauge("training_checkpoint_age_seconds", "Since the newest checkpoint.")
        age.set_function(lambda: time.time() - newest(checkpoints, pattern))
        self.since = time.monotonic()
        in_a_pod = HOSTS.is_file() and HOSTS.read_text().startswith(IN_A_POD)
        prometheus.start_http_server(port, "0.0.0.0" if in_a_pod else "127.0.0.1", registry)

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step."""
        now = time.monotonic()
        self.seconds.inc(now - self.since)
        self.since = now
        for name, value in {"step": step, **values}.items():
            if name not in self.gauges:
                metric_name = re.sub(r"\W", "_", name)  # what Prometheus takes for a name
                self.gauges[name] = self.gauge(f"training_{metric_name}", name.replace("_", " "))
            self.gauges[name].set(value)


def newest(checkpoints: Path, pattern: str) -> float:
    """Returns when the newest checkpoint was written; NaN where there is none."""
    times = []
    for path in checkpoints.glob(pattern):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            times.append(path.stat().st_mtime)
    return max(times, default=math.nan)


def serve_metrics(checkpoints: Path, pattern: str) -> MetricsServer | None:
    """Serves metrics where METRICS_PORT asks for it; that this fails does not stop training."""
    if "METRICS_PORT" not in os.environ:
        return None
    try:
        return MetricsServer(int(os.environ["METRICS_PORT"]), checkpoints, pattern)
    except (ImportError, OSError, ValueError, OverflowError) as error:
        print(f"metrics are not served: {error}", flush=True)
        return None


class Metrics:
    """Sends metrics to MLflow, from a thread of its own.

    They go to the run MLFLOW_RUN_ID, or, where there is no such variable, to a new one of
    MLFLOW_TRACKING_URI.
    Training never waits for the tracking server. What that has not taken is in a file from the
    next second on, from where it is sent again, also when training has been started anew. What is
    there at the end is for who started the training: Trireme brings it to MLflow. Where nothing
    leads to a run, MLFLOW_RUN_ID is empty, or the server refuses, all metrics are there.
    Where METRICS_PORT is set, Prometheus can fetch them, too.

    Args:
        checkpoints: The folder of checkpoints, where that file is.
        pattern: What complete checkpoints are called, as for ``Path.glob``.
        patience: Seconds that ``close`` waits for an answer.
    """

    def __init__(self, checkpoints: Path, pattern: str, patience: float = 10.0) -> None:
        self.unsent, self.patience = checkpoints / UNSENT, patience
        self.run = os.environ.get("MLFLOW_RUN_ID", "")
        self.opens_run = "MLFLOW_RUN_ID" not in os.environ and "MLFLOW_TRACKING_URI" in os.environ
        self.has_server = bool(self.run) or self.opens_run
        self.waiting: list[dict[str, Any]] = self._left() if self.has_server else []
        self.in_file = len(self.waiting)  # of those that wait, the first so many
        self.is_away, self.lock, self.closed = False, threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()
        self.served = serve_metrics(checkpoints, pattern)

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
        if self.served:
            self.served.log(step, **values)
        at = {"timestamp": int(time.time() * 1000), "step": int(step)}
        self.waiting += [{"key": key, "value": float(value)} | at for key, value in values.items()]

    def close(self) -> None:
        """Makes sure that everything is sent, or in the file."""
        self.closed.set()
        self._keep()  # before whoever ends this program loses patience, should MLflow hang
        self.thread.join(self.patience)
        self._keep()
        if lost := len(self.waiting) - self.in_file:
            print(
                f"metrics for MLflow are lost: {lost}, as {self.unsent} cannot be written",
                flush=True,
            )
        elif self.waiting:
            print(f"metrics that MLflow has not taken are in {self.unsent}", flush=True)

    def _work(self) -> None:
        is_last = False
        while not is_last:
            is_last = self.closed.wait(1)
            if self.has_server:
                self._send()
            self._keep()
        if self.opens_run and self.run:
            with contextlib.suppress(Exception):  # it has its metrics
                import mlflow

                mlflow.end_run()

    def _send(self) -> None:
        # Our own loop tries again; MLflow's retries would hold up the end of a cancelled run.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        try:
            # One batch for all that has piled up: SQLite takes 100 as fast as one.
            while batch := self.waiting[:1000]:
                import mlflow
                from mlflow.entities import Metric

                self.run = self.run or mlflow.start_run().info.run_id
                client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI"))
                client.log_batch(self.run, metrics=[Metric(**value) for value in batch])
                self._forget(len(batch))
                self.is_away = False
        except Exception as error:
            status = getattr(error, "get_http_status_code", lambda: 0)()
            if status in REFUSED:
                print(f"MLflow refuses metrics ({status}); none are sent to it", flush=True)
                self.has_server = False
            elif not self.is_away:  # without the message, which can hold a password of the URL
                print(f"metrics wait for MLflow: {type(error).__name__}", flush=True)
            self.is_away = True

    def _forget(self, sent: int) -> None:
        with self.lock:
            del self.waiting[:sent]
            if 0 < self.in_file <= sent:
                self.unsent.unlink(missing_ok=True)
            self.in_file = max(0, self.in_file - sent)

    def _keep(self) -> None:
        """Writes what waits to the file; a full disk is no reason to stop training."""
        with self.lock, contextlib.suppress(OSError):
            if more := self.waiting[self.in_file :]:
                self.unsent.parent.mkdir(parents=True, exist_ok=True)
                before = self.unsent.stat().st_size if self.unsent.exists() else 0
                try:
                    with self.unsent.open("a") as file:
                        # Each line is begun anew: the one before may have been cut off.
                        file.write("".join(f"\n{json.dumps(value)}" for value in more))
                except OSError:  # also of closing it, which writes what is in its buffer
                    os.truncate(self.unsent, before)  # all of it is written later
                    raise
                self.in_file += len(more)
            if not self.has_server:
                del self.waiting[: self.in_file]
                self.in_file = 0

    def _left(self) -> list[dict[str, Any]]:
        """Returns what an earlier start of this training has left in the file."""
        metrics = []
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in self.unsent.read_text().split("\n"):
                with contextlib.suppress(*UNREADABLE):
                    read = json.loads(line)
                    metric = {name: kind(read[name]) for name, kind in FIELDS.items()}
                    if max(metric["timestamp"], abs(metric["step"])) < 2**63:  # as MLflow's are
                        metrics.append(metric)
        return metrics


def until_sigterm() -> threading.Event:
    """Returns an event that SIGTERM sets."""
    received = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: received.set())
    return received
