"""The record of steps that keep none: somebody's own, in images that know nothing of Trireme.

What their pods tell is written as their journals, before the run's record is closed: when they
ran, what they printed, and how they failed.
"""

from pathlib import Path
from typing import Any

from trireme.errors import StepFailed, TriremeError
from trireme.finish.failing import failure
from trireme.kubernetes import owner, pods
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.log_tail import log_tail
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.step_pods import CONTAINER, WORKFLOW, step_of
from trireme.text.say import say
from trireme.tracking import journal

LINES = 10_000  # of a step's log that are kept, the last ones
PATIENCE = 15.0  # seconds that an API server may be away; the run's end waits


def keep(workspace: Path) -> None:
    """Writes the journals of the run's steps that have ended and have none.

    Raises:
        TriremeError: The cluster does not tell.
    """
    cluster = Cluster(patience=PATIENCE)
    labels = owner.this_pod(cluster)["metadata"].get("labels") or {}
    if not (workflow := labels.get(WORKFLOW)):
        return
    listing = cluster.items(PODS, cluster.namespace, labelSelector=f"{WORKFLOW}={workflow}")
    found = sorted(listing, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    for step, pod in {step_of(pod): pod for pod in found}.items():  # of several tries the last
        if step and pods.is_over(pod) and not journal.journal_path(workspace, step).exists():
            try:
                _write(cluster, step, pod, workspace)
            except TriremeError as error:  # the others have theirs
                say(f"warning: step {step} has no record: {error}")


def _write(cluster: Cluster, step: str, pod: dict[str, Any], workspace: Path) -> None:
    folder = journal.journal_path(workspace, step).parent
    folder.mkdir(parents=True, exist_ok=True)
    lines = log_tail(cluster, pod, CONTAINER, LINES, previous=False)
    log = folder / "output.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    state = pods.container_status(pod, CONTAINER).get("state", {}).get("terminated", {})
    error, status = None, "FINISHED"
    failed = pods.failure(pod, CONTAINER)
    if code := state.get("exitCode"):
        error, status = failure(step, code, lines), "FAILED"
    elif failed:  # an evicted pod may tell nothing of its containers
        error, status = StepFailed(f"step {step} {failed.words}"), "FAILED"
    began = state.get("startedAt") or pod["metadata"]["creationTimestamp"]
    ended = pods.moment(state["finishedAt"]) if state.get("finishedAt") else None
    at = ended or (failed.at if failed else pods.moment(began))
    journal.write_for(
        workspace, step, status, error, log, pods.moment(began).timestamp(), at.timestamp()
    )
