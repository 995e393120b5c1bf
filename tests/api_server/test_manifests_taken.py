"""A real API server takes every manifest, and every pod that an operator would make of one."""

import copy
import time

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from player import NAMESPACES
from shapes import IMAGE, SHAPES, TRAINJOBS, descriptions

from trireme.data.description import Dataset
from trireme.data.volumes import persistent
from trireme.errors import InputError
from trireme.frameworks import KINDS, kind_of
from trireme.frameworks.kinds import TRAINING_RUNTIMES, objects
from trireme.job.job import TrainingJob
from trireme.kubernetes.errors import Forbidden, Invalid
from trireme.kubernetes.resources import PODS, Resource
from trireme.manifests import render
from trireme.runner.cluster import submission

pytestmark = pytest.mark.cluster

VOLUMES = Resource("", "v1", "persistentvolumes")
PLACES = {kind.name: kind for kind in KINDS.values()} | {"TrainingRuntime": TRAINING_RUNTIMES}
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
OPERATOR = dict.fromkeys(SHAPES, "training-operator") | dict.fromkeys(TRAINJOBS, "trainer")


def dry_run(cluster, resource, body):
    """Has the server check an object as strictly as it can, and create nothing."""
    return cluster.create(resource, body, cluster.namespace, dryRun="All", fieldValidation="Strict")


def taken_of(cluster, body):
    """Returns an object as the server would have it; a runtime is made, as its job needs it."""
    place = PLACES[body["kind"]]
    if place is TRAINING_RUNTIMES:
        cluster.create(place, body, cluster.namespace, fieldValidation="Strict")
        return cluster.get(place, body["metadata"]["name"], cluster.namespace)
    limit = time.monotonic() + submission.RUNTIME_LIMIT
    while True:
        try:
            return dry_run(cluster, place, body)
        except Invalid as error:
            if not submission.RUNTIME_MISSING.search(str(error)) or time.monotonic() > limit:
                raise
        time.sleep(submission.RUNTIME_PAUSE)


def pods_of(manifest):
    """Returns the pods that an operator would make, one for each role."""
    spec = manifest["spec"]
    trainer = {}
    if "runtime" in manifest:
        jobs = manifest["runtime"]["spec"]["template"]["spec"]["replicatedJobs"]
        roles = {job["name"]: job["template"]["spec"] for job in jobs}
    elif manifest["kind"] == "TrainJob":
        (patch,) = spec["runtimePatches"]
        jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        roles = {job["name"]: job["template"]["spec"] for job in jobs}
        trainer = {name: spec["trainer"][name] for name in ("image", "command", "args", "env")}
        trainer["resources"] = spec["trainer"]["resourcesPerNode"]
    else:
        roles = spec[kind_of(manifest).replicas]
    for role, of_role in roles.items():
        pod = copy.deepcopy(of_role["template"])
        pod["metadata"]["name"] = f"{manifest['metadata']['name']}-{role.lower()}-0"
        pod["spec"]["containers"][0] |= trainer
        # These would have to be there.
        for field in ("serviceAccountName", "priorityClassName"):
            pod["spec"].pop(field, None)
        yield {"apiVersion": "v1", "kind": "Pod"} | pod


@pytest.mark.parametrize("name", OPERATOR)
def test_the_api_server_takes_every_shape_and_keeps_all_of_it(name, real):
    manifest = render(TrainingJob.create(**(SHAPES | TRAINJOBS)[name]), OPERATOR[name])
    for body in objects(manifest):
        taken = taken_of(real, body)
        assert missing(body["spec"], taken["spec"]) == []
    for pod in pods_of(manifest):
        dry_run(real, PODS, pod)


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset(uri="nfs://server.cn-hangzhou.nas.aliyuncs.com/flowers"),
        Dataset(uri="oss://bucket/flowers", region="cn-hangzhou", access="mount", secret="oss"),
        Dataset(uri="s3://bucket/flowers", endpoint="https://storage.example.org", access="mount"),
    ],
    ids=lambda dataset: dataset.place.kind,
)
def test_the_api_server_takes_the_volume_of_a_dataset_and_its_claim(dataset, real):
    held, claim = persistent(dataset, "flowers", real.namespace)
    for resource, body, namespace in ((VOLUMES, held, ""), (CLAIMS, claim, real.namespace)):
        taken = real.create(resource, body, namespace, dryRun="All", fieldValidation="Strict")
        assert missing(body["spec"], taken["spec"]) == []


@pytest.mark.parametrize("name", ["pytorch", "tensorflow-ps"])
def test_jobs_of_an_ordinary_user_pass_pod_security_restricted(name, real):
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    real.patch(NAMESPACES, real.namespace, "", enforced)
    for user, passes in ((1000, True), (None, False)):
        # Not in an image of ours, whose user is known.
        fields = SHAPES[name] | {"image": IMAGE, "run_as_user": user}
        manifest = render(TrainingJob.create(**fields))
        for pod in pods_of(manifest):
            if passes:
                dry_run(real, PODS, pod)
            else:
                with pytest.raises(Forbidden, match='violates PodSecurity "restricted'):
                    dry_run(real, PODS, pod)


def missing(given, taken, place="spec"):
    """Returns the places where something given is not there any more."""
    if isinstance(given, dict):
        return [
            gone
            for name, part in given.items()
            for gone in (
                missing(part, taken[name], f"{place}.{name}")
                if name in taken
                else [f"{place}.{name}"]
            )
        ]
    if isinstance(given, list):
        assert len(given) == len(taken), place
        pairs = zip(given, taken, strict=True)
        return [gone for part, kept in pairs for gone in missing(part, kept, place)]
    # Trainer's mutating webhook has read and written amounts, which are texts then.
    is_same = given == taken or (type(given) is int and str(given) == taken)
    return [] if is_same else [f"{place}: {given!r} became {taken!r}"]


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["training-operator", "trainer"])
def test_the_api_server_takes_whatever_is_not_refused(operator, real):
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def check(data):
        try:
            manifest = render(TrainingJob.create(**data.draw(descriptions(operator))), operator)
        except InputError:
            assume(False)
        for body in objects(manifest)[:1]:  # a TrainJob needs its runtime to be there
            dry_run(real, PLACES[body["kind"]], body)
        for pod in pods_of(manifest):
            dry_run(real, PODS, pod)

    check()
