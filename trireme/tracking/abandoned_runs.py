"""End the records of runs that have ended without their last step, which would have done it.

A run that is cancelled on Kubeflow has none: its deadline is over at once. Nor has one that was
terminated on Argo, or whose Workflow somebody has deleted. Where Kubeflow's MLflow plugin opens the
runs, it ends that of a cancelled run, and leaves those of its steps open.
"""

import os
from collections.abc import Mapping

from trireme.errors import InputError, TrackingUnavailable
from trireme.text.say import say
from trireme.tracking import runs
from trireme.tracking.client import client, hurry
from trireme.tracking.store import check_reachable, reason_of, uri

OF_A_PIPELINE = {"pipeline", "kfp.pipeline_run_id"}
"""Tags of which the run of a pipeline has one: ours, and that of Kubeflow's MLflow plugin."""

ENDED = ("FINISHED", "FAILED", "KILLED")


def end(states: Mapping[str, str]) -> None:
    """Ends in MLflow what has ended on a cluster, where MLFLOW_TRACKING_URI is set, and says so."""
    ended = {name: state for name, state in states.items() if state in ENDED}
    if not ended or "MLFLOW_TRACKING_URI" not in os.environ:
        return
    hurry()
    try:
        check_reachable(uri())
        running = list(client.every_run(client.experiment_ids(), "attributes.status = 'RUNNING'"))
        closed = {}
        for run in running:
            try:
                parent = client.whole(run)
            except client.refusal:  # somebody has deleted that of the whole
                continue
            name = parent.info.run_name
            if name in ended and OF_A_PIPELINE & parent.data.tags.keys():
                if run.info.run_id != parent.info.run_id:
                    runs.end(run.info.run_id, "KILLED")
                closed[parent.info.run_id] = parent  # a run may have several records
        for parent in closed.values():
            name = parent.info.run_name
            if parent.info.status != ended[name]:  # Kubeflow's plugin calls a cancelled run FAILED
                runs.end(parent.info.run_id, ended[name])
            say(f"{name} was still open in MLflow, and is now {ended[name]}")
    except (TrackingUnavailable, InputError, client.refusal) as error:
        say(f"warning: MLflow did not get the status of ended runs: {reason_of(error)}")
