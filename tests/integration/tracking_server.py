"""A real MLflow tracking server that can go away and come back."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from git_servers import free_port


class TrackingServer:
    """``mlflow server`` on a port of loopback.

    Args:
        database: URI of its database.
        artifacts: Directory for the artifacts, which clients send to the server.
        workers: How many processes answer.
    """

    def __init__(self, database: str, artifacts: Path, workers: int = 1) -> None:
        port = free_port()
        self.uri = self._place = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "mlflow", "server", "--workers", str(workers)]
        self._command += ["--host", "127.0.0.1", "--port", str(port)]
        self._command += ["--artifacts-destination", str(artifacts)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        # Not on the command line: it may hold a password. Its job runners would be idle here.
        self._environment = kept | {
            "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it answers."""
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        limit = time.monotonic() + 90
        while time.monotonic() < limit:
            assert self._process.poll() is None, "the MLflow server ended"
            try:
                urllib.request.urlopen(f"{self._place}/health", timeout=2).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the MLflow server did not start")

    def stop(self) -> None:
        """Kills it, with all that it started."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
