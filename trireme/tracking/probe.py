"""A try of MLflow from where a step runs: ``python -m trireme.tracking.probe``.

It prints one sentence. The exit status is 1 if MLflow does not answer or keeps no files.
"""

import os
import sys
import tempfile
from pathlib import Path

from trireme.errors import TriremeError
from trireme.tracking import environment, store
from trireme.tracking.client import client, hurry

FOLDER = "trireme-probe"
"""What it writes below an experiment's artifacts, and removes."""

RETRIES, SECONDS = "1", "20"  # of MLflow's own, for a file


def main() -> int:
    """Asks MLflow for an experiment, and writes and removes a file in its artifact store."""
    environment.separate_login()
    if "MLFLOW_TRACKING_URI" not in os.environ:
        print("nothing says where MLflow is: runs are recorded nowhere")
        return 0
    hurry()
    uri = store.public(store.uri())
    try:
        experiment, *_ = client.search_experiments(max_results=1)
    except (TriremeError, ValueError, client.refusal) as error:
        print(f"MLflow at {uri}: {store.reason_of(error)}")
        return 1
    root = experiment.artifact_location
    try:
        _write(root)
    except Exception as error:  # whatever the client of the store raises
        print(
            f"MLflow at {uri} answers, but its artifact store takes no file at {root}, so a run "
            f"would lose its models and reports: {store.reason_of(error)}"
        )
        return 1
    print(f"MLflow at {uri} answers, and its artifact store takes files")
    return 0


def _write(location: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    os.environ |= {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": RETRIES,
        "MLFLOW_HTTP_REQUEST_TIMEOUT": SECONDS,
    }
    store.quiet()
    repository = get_artifact_repository(location)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.write_text("written by trireme to see whether it can be\n")
        repository.log_artifact(str(file), FOLDER)
    repository.delete_artifacts(FOLDER)


if __name__ == "__main__":
    sys.exit(main())
