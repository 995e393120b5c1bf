"""End the records of runs that have ended without their last step, which would have done it.

A run that is cancelled on Kubeflow has none: its deadline is over at once. Nor has one that was
terminated on Argo, or whose Workflow somebody has deleted.
"""

import os
from collections.abc import Mapping

from components.errors import TrackingUnavailable
from components.say import say
from components.tracking import opening, sync
from components.tracking.store import reason_of

ENDED = ("FINISHED", "FAILED", "KILLED")


def end(states: Mapping[str, str]) -> None:
    """Ends in MLflow what has ended on a cluster and says what, where MLFLOW_TRACKING_URI is set.

    Args:
        states: How runs are, by their names.
    """
    ended = {name: state for name, state in states.items() if state in ENDED}
    if not ended or "MLFLOW_TRACKING_URI" not in os.environ:
        return
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    sync.hurry()
    try:
        client = MlflowClient()
        experiments = sync.patiently(client.search_experiments)
        ids = [each.experiment_id for each in experiments]
        query = "attributes.status = 'RUNNING'"
        running = sync.patiently(lambda: client.search_runs(ids, query))
        for run in running:
            name, tags = run.info.run_name, run.data.tags
            if name not in ended or "pipeline" not in tags or "mlflow.parentRunId" in tags:
                continue
            for step in running:
                if step.data.tags.get("mlflow.parentRunId") == run.info.run_id:
                    opening.end(step.info.run_id, "KILLED")
            opening.end(run.info.run_id, ended[name])
            say(f"{name} was still open in MLflow, and is {ended[name]} there now")
    except (TrackingUnavailable, MlflowException) as error:
        say(f"warning: MLflow is not told which runs have ended: {reason_of(error)}")
