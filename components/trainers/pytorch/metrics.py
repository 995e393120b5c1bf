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

GRACE = 15.0  # seconds of the 30 that a pod has after SIGTERM; the others are for what comes next

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
                known = re.sub(r"\W", "_", name)  # what Prometheus takes for a name
                self.gauges[name] = self.gauge(f"training_{known}", name.replace("_", " "))
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
    """Sends metrics to the MLflow run of the environment, from a thread of its own.

    Training never waits for the tracking server: what it does not take is kept and sent again,
    at the end too, for ``patience`` seconds; what is still left then is written to a file. One that
    refuses them is not asked again.
    Where METRICS_PORT is set, Prometheus can fetch them, too.

    Args:
        checkpoints: The folder of checkpoints, where that file goes.
        pattern: What complete checkpoints are called, as for ``Path.glob``.
        patience: Seconds.
    """

    def __init__(self, checkpoints: Path, pattern: str, patience: float = 120.0) -> None:
        self.unsent = checkpoints / "metrics-unsent.json"
        self.patience, self.limit = patience, math.inf
        self.waiting: list[dict[str, Any]] = []
        self.closed, self.refused = threading.Event(), False
        self.thread = threading.Thread(target=self._send, daemon=True)
        if os.environ.get("MLFLOW_RUN_ID"):
            self.thread.start()
        self.served = serve_metrics(checkpoints, pattern)

    def log(self, step: int, **values: float) -> None:
        """Takes the values of one step; returns at once."""
        if self.served:
            self.served.log(step, **values)
        if self.thread.ident:
            at = {"timestamp": int(time.time() * 1000), "step": step}
            self.waiting += [{"key": key, "value": value} | at for key, value in values.items()]

    def limit_patience(self) -> None:
        """Leaves ``close`` no more time than there is, from now on, after SIGTERM."""
        self.limit = min(self.limit, time.monotonic() + GRACE)

    def close(self) -> None:
        """Waits until everything is sent, or kept in the file."""
        self.closed.set()
        give_up = time.monotonic() + self.patience
        while self.thread.is_alive() and time.monotonic() < min(give_up, self.limit):
            self.thread.join(0.1)  # no longer: SIGTERM may leave less time meanwhile
        if (self.thread.is_alive() or self.refused) and self.waiting:
            self.unsent.parent.mkdir(parents=True, exist_ok=True)
            self.unsent.write_text(json.dumps(self.waiting))
            self.waiting.clear()  # with which the thread ends
            print(f"metrics that MLflow never took are in {self.unsent}", flush=True)

    def _send(self) -> None:
        # Our own loop tries again; MLflow's retries would hold up the end of a cancelled run.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        away = False
        while not self.closed.wait(0 if self.waiting else 1) or self.waiting:
            # One batch for all that has piled up: SQLite takes 100 as fast as one.
            batch = [Metric(**values) for values in self.waiting[:1000]]
            try:
                if batch:
                    MlflowClient().log_batch(os.environ["MLFLOW_RUN_ID"], metrics=batch)
                del self.waiting[: len(batch)]
                away = False
            except Exception as error:
                status = getattr(error, "get_http_status_code", lambda: 0)()
                if status in REFUSED:
                    print(f"MLflow refuses metrics ({status}); none are sent to it", flush=True)
                    self.refused = True
                    return
                if not away:  # without the message, which can hold a password of the server's URL
                    print(f"metrics wait for MLflow: {type(error).__name__}", flush=True)
                away = True
                time.sleep(1)


def until_sigterm(metrics: Metrics | None) -> threading.Event:
    """Returns an event that SIGTERM sets, after which metrics have little time."""
    received = threading.Event()

    def take(*_: object) -> None:
        received.set()
        if metrics:
            metrics.limit_patience()

    signal.signal(signal.SIGTERM, take)
    return received
