"""Bringing a job to the cluster once, however often that is tried."""

import copy
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from trireme.errors import InputError, TriremeError
from trireme.frameworks import KINDS, kind_of, pods_of
from trireme.frameworks.kinds import QUEUE, TRAINING_RUNTIMES
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, Forbidden, Invalid, KindMissing, NotFound
from trireme.kubernetes.resources import JOB_SETS, PODS
from trireme.process.patience import wait_for
from trireme.runner.cluster import admission
from trireme.runner.cluster.kueue import check_is_held
from trireme.runner.cluster.status import State, is_train_job, status_of

_RUN = "MLFLOW_RUN_ID"
OF_A_RUN = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", _RUN)
"""Variables of a run's job that its next launcher may have otherwise, or only then."""

SPEC_HASH = "trireme.dev/spec-hash"
"""The annotation that tells whether a job of the same name is the same job."""

POLL = 1.0  # seconds between two looks at a job that is going away
RUNTIME_MISSING = re.compile(
    "specified trainingRuntime must be created before the TrainJob is created"
    "|runtime '[^']*' not found"
)
"""What the webhooks of Trainer and Kueue say of a runtime that they have not been told of yet."""

RUNTIME_LIMIT, RUNTIME_PAUSE = 30.0, 0.2  # seconds that it may take to be, and between two attempts
DELETION_LIMIT = 300.0  # seconds that a job and its pods may take to go away


def submit(
    cluster: Cluster,
    manifest: dict[str, Any],
    prepare: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Makes sure that a job is on the cluster, and only once; returns it as the API server has it.

    A job of that name and specification that runs or has succeeded is attached to. One that has
    failed or was cancelled is deleted and made anew.

    Args:
        prepare: Called with the manifest of a job that is made, to change it first, in a way that
            does not make it another job.
    """
    body = copy.deepcopy(manifest)
    metadata = body["metadata"]
    metadata.setdefault("namespace", cluster.namespace)
    metadata.setdefault("annotations", {})[SPEC_HASH] = spec_hash(manifest)
    existing = find(cluster, manifest)
    if existing is not None and _is_usable(existing, body):
        return existing
    _check_name(cluster, body)
    _make_room(cluster, body, existing)
    if prepare:
        prepare(body)
    jobs, namespace = kind_of(body), metadata["namespace"]
    admission.check(cluster, body, namespace)
    with _runtime_of(cluster, body) as give_to:
        try:
            job = _create(cluster, body)
        except AlreadyThere:
            # Ours, if an answer was lost on its way, or that of somebody who was faster.
            existing = cluster.get(jobs, metadata["name"], namespace)
            job = _check_ours(existing, manifest)
        give_to(job)
    return job


def _create(cluster: Cluster, body: dict[str, Any]) -> dict[str, Any]:
    """Creates a job, as soon as Trainer has seen its runtime, which it watches for."""

    def create(**query: str) -> dict[str, Any] | None:
        try:
            return cluster.create(kind_of(body), body, body["metadata"]["namespace"], **query)
        except Invalid as error:
            if not RUNTIME_MISSING.search(str(error)):
                raise
            return None

    def patiently(**query: str) -> dict[str, Any]:
        job = wait_for(lambda: create(**query), RUNTIME_LIMIT, RUNTIME_PAUSE)
        return job or cluster.create(kind_of(body), body, body["metadata"]["namespace"], **query)

    if QUEUE in body["metadata"].get("labels", {}) and is_train_job(body):
        check_is_held(body, patiently(dryRun="All"))  # which needed the runtime
    return patiently()


@contextmanager
def _runtime_of(
    cluster: Cluster, body: dict[str, Any]
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Creates the runtime of a TrainJob before it; yields what makes the job own it."""
    # Its name is unique, as one of a job before may be about to go. It stays only if a job owns it,
    # and goes with that.
    runtime = body.pop("runtime", None)
    if runtime is None:
        yield lambda job: None
        return
    metadata = body["metadata"]
    name = f"{metadata['name']}-{secrets.token_hex(4)}"
    runtime["metadata"] |= {"name": name} | {
        key: metadata[key] for key in ("namespace", "ownerReferences") if key in metadata
    }
    body["spec"]["runtimeRef"]["name"] = name
    ref = (name, metadata["namespace"])
    try:
        created = cluster.create(TRAINING_RUNTIMES, runtime, metadata["namespace"])
    except AlreadyThere:  # the answer that it is made was lost
        created = cluster.get(TRAINING_RUNTIMES, *ref)
    is_given = False

    def give_to(job: dict[str, Any]) -> None:
        nonlocal is_given
        if job["spec"]["runtimeRef"]["name"] != name:
            return
        is_given = True
        owner = {key: job[key] for key in ("apiVersion", "kind")}
        owner |= {key: job["metadata"][key] for key in ("name", "uid")}
        cluster.patch(TRAINING_RUNTIMES, *ref, {"metadata": {"ownerReferences": [owner]}})

    try:
        yield give_to
    finally:
        if not is_given:
            with suppress(TriremeError):
                cluster.delete(TRAINING_RUNTIMES, *ref, created["metadata"]["uid"])


def find(
    cluster: Cluster, manifest: dict[str, Any], patience: float | None = None
) -> dict[str, Any] | None:
    """Returns the job of a manifest's kind and name; ``None`` if there is none."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", cluster.namespace)
    return cluster.find(kind_of(manifest), metadata["name"], namespace, patience)


def patch(cluster: Cluster, job: dict[str, Any], change: dict[str, Any]) -> None:
    """Merges fields into a job on the cluster."""
    metadata = job["metadata"]
    cluster.patch(kind_of(job), metadata["name"], metadata["namespace"], change)


def remove_replaced(cluster: Cluster, manifest: dict[str, Any]) -> bool:
    """Removes a job that ``submit`` would replace; tells whether there is one to attach to."""
    existing = find(cluster, manifest)
    if existing is not None and _is_usable(existing, manifest):
        return True
    _make_room(cluster, manifest, existing)
    return False


def spec_hash(manifest: dict[str, Any]) -> str:
    """Returns what is the same for two manifests of the same job, and no others."""
    specs = [part["spec"] for part in (manifest.get("runtime"), manifest) if part]
    text = json.dumps([manifest["kind"], *map(_without_run, specs)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def is_same(job: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Tells whether a job on the cluster was made from a manifest with this specification."""
    return job["metadata"].get("annotations", {}).get(SPEC_HASH) == spec_hash(manifest)


def wait_until_gone(cluster: Cluster, job: dict[str, Any]) -> None:
    """Waits until a job that is being deleted no longer exists, nor any of its pods."""
    metadata = job["metadata"]

    def is_gone() -> bool:
        if existing := find(cluster, job):
            # The name may be another job's, which waited for this one's pods.
            return bool(existing["metadata"]["uid"] != metadata.get("uid"))
        return not _has_leftovers(cluster, job)

    if not wait_for(is_gone, DELETION_LIMIT, POLL):
        raise TriremeError(
            f"{job['kind']} {metadata['name']} is being deleted but still exists; one of its "
            "pods may be on a node that does not answer"
        )


def _has_leftovers(cluster: Cluster, job: dict[str, Any]) -> bool:
    """Tells whether something is left of a TrainJob that does not exist; see ``delete``."""
    if not is_train_job(job):
        return False
    metadata = job["metadata"]
    namespace = metadata.get("namespace", cluster.namespace)
    with suppress(NotFound, KindMissing, Forbidden):
        cluster.get(JOB_SETS, metadata["name"], namespace)
        return True
    return bool(cluster.items(PODS, namespace, labelSelector=pods_of(job)))


def _check_name(cluster: Cluster, body: dict[str, Any]) -> None:
    """Refuses a name that a job of another kind has: by it one finds a job, and a job its pods."""
    metadata = body["metadata"]
    for kind in KINDS.values():
        if kind.name != body["kind"]:
            with suppress(NotFound, KindMissing, Forbidden):
                cluster.get(kind, metadata["name"], metadata["namespace"])
                raise InputError(
                    f"name {metadata['name']!r}: a {kind.name} of that name exists already; "
                    "delete it first, or choose another name"
                )


def _is_usable(existing: dict[str, Any], body: dict[str, Any]) -> bool:
    """Tells whether to attach to a job rather than to replace it."""
    if status_of(existing).state in (State.FAILED, State.CANCELLED, State.DELETING):
        return False
    _check_ours(existing, body)
    return True


def _check_ours(existing: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if is_same(existing, body):
        return existing
    name, state = existing["metadata"]["name"], status_of(existing).state
    raise InputError(
        f"name {name!r}: a {existing['kind']} of that name exists already ({state}) and is a "
        "different job; delete it first, or choose another name"
    )


def _without_run(part: Any) -> Any:
    """Returns a part of a manifest without the MLflow run, which another attempt may not have."""
    if isinstance(part, dict):
        return {name: _without_run(value) for name, value in part.items()}
    if isinstance(part, list):
        names = {value.get("name") for value in part if isinstance(value, dict)}
        of_a_run = OF_A_RUN if _RUN in names else ()  # else a person has named the experiment
        return [
            _without_run(value)
            for value in part
            if not (isinstance(value, dict) and value.get("name") in of_a_run)
        ]
    return part


def _make_room(cluster: Cluster, manifest: dict[str, Any], existing: dict[str, Any] | None) -> None:
    """Removes a job that another one is to replace, and waits for what is left of earlier ones."""
    # A TrainJob that somebody deletes in the foreground may take for ever.
    if existing and (is_train_job(existing) or status_of(existing).state is not State.DELETING):
        delete(cluster, existing)
    if existing or _has_leftovers(cluster, manifest):
        wait_until_gone(cluster, existing or manifest)


def delete(cluster: Cluster, job: dict[str, Any], patience: float | None = None) -> None:
    """Deletes a job with all its pods; one that is gone already is fine."""
    # A job stays until its pods are gone, but for a TrainJob: Trainer 2.3 makes the JobSet of one
    # that is being deleted anew, as its reconciler does not look whether it is
    # (https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/controller/trainjob_controller.go), so
    # that one goes first, and what belongs to it afterwards.
    metadata = job["metadata"]
    # AlreadyThere: the name is another job's now.
    with suppress(NotFound, AlreadyThere):
        cluster.delete(
            kind_of(job),
            metadata["name"],
            metadata["namespace"],
            metadata["uid"],
            patience,
            # In the foreground it would wait for ever: its runtime goes before it, and without that
            # Trainer's webhook refuses every change to it, the last one of its deletion as well.
            dependents="Background" if is_train_job(job) else "Foreground",
        )
