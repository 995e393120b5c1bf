"""The event files among the artifacts of a pipeline's run in MLflow."""

import os
import tempfile
from pathlib import Path
from typing import Any

from trireme.errors import TriremeError
from trireme.plain import as_file_name
from trireme.tracking import journal, store
from trireme.tracking.abandoned_runs import OF_A_PIPELINE
from trireme.tracking.client import client, hurry
from trireme.tracking.store import reason_of


def download(run: str, folder: Path) -> None:
    """Brings the event files of a run's steps into a folder, where MLFLOW_TRACKING_URI is set."""
    if "MLFLOW_TRACKING_URI" not in os.environ:
        return
    store.use()
    hurry()
    try:
        ids = client.experiment_ids()
        name = run.replace("'", "")
        runs = client.search_runs(ids, f"attributes.run_name = '{name}'")
        runs_below = [run for run in runs if OF_A_PIPELINE & run.data.tags.keys()]
        for run_below in runs_below:  # it grows
            runs_below += client.nested_in(run_below, ids)
            if client.list_artifacts(run_below.info.run_id, journal.EVENTS):
                _download(run_below, folder)
    except client.refusal as error:
        raise TriremeError(f"MLflow refuses: {reason_of(error)}") from None


def _download(run: Any, folder: Path) -> None:
    info = run.info
    # Whoever may write to the server has named the run.
    name, run_id = (as_file_name(text, "run") for text in (info.run_name, info.run_id))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as partial:
        client.download_artifacts(info.run_id, journal.EVENTS, partial)
        destination = folder / name
        if destination.exists():  # another turn of a loop
            destination = folder / f"{name}-{run_id[:8]}"
        Path(partial, journal.EVENTS).rename(destination)
