"""``trireme plan`` and ``trireme job plan``, as a person uses them."""

import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from trireme.cli import app as cli
from trireme.frameworks import KINDS
from trireme.job.job import TrainingJob
from trireme.kubernetes import quota
from trireme.kubernetes.errors import AlreadyThere
from trireme.kubernetes.nodes import NODES
from trireme.kubernetes.resources import PODS, Resource
from trireme.manifests import render
from trireme.manifests.roles import roles
from trireme.runner.cluster import checks
from trireme.targets.argo import workflows

MANIFESTS = Path(__file__).parents[2] / "manifests"
PRICES = "{currency: EUR, cpu_hour: 0.5, gib_hour: 0.25, gpu_hour: 2}"
ON_KUBEFLOW = ("--target", "kfp", "--namespace", "team")
PIPELINE = ("plan", "pytorch-training", *ON_KUBEFLOW)


@pytest.fixture
def trireme(monkeypatch, capsys, tmp_path, untracked):
    """Runs a command; returns its exit status, what it printed, and what it found."""
    (tmp_path / "job.yaml").write_text("{entrypoint: train.py, image: example.org/train}")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["trireme", *arguments])
        try:
            cli.main()
            status = 0
        except SystemExit as ended:
            status = ended.code
        output, errors = capsys.readouterr()
        found = [line.split(None, 1) for line in output.partition("checked in")[2].splitlines()[1:]]
        return SimpleNamespace(status=status, output=output, errors=errors, found=found)

    return run


@pytest.fixture
def standing_in(standing_in):
    """A cluster whose namespace team is a profile of Kubeflow's, with our rights in it."""
    make(standing_in, "ServiceAccount", "default-editor")
    allow(standing_in)
    return standing_in


def problems(cluster, job, **more):
    """Returns why a job would not fit into the cluster's namespace."""
    pods = [(role.name, role.count, role.pod) for role in roles(render(job))]
    return quota.problems(cluster, job.plugin.kind, pods, **more)


@pytest.fixture
def there(trireme, cluster):
    """Runs a command in the test's own namespace, a profile of Kubeflow's with our rights in it."""
    with suppress(AlreadyThere):
        make(cluster, "ServiceAccount", "default-editor")
        allow(cluster)
    return lambda *arguments: trireme(*arguments, "--namespace", cluster.namespace)


def make(cluster, kind, name, **fields):
    """Makes an object on the cluster."""
    own = {"ResourceQuota": quota.QUOTAS, "LimitRange": quota.LIMIT_RANGES}
    resource = own.get(kind) or checks.RESOURCES[kind][0]
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}} | fields
    cluster.create(resource, body, cluster.namespace)


def allow(cluster, file="base/rights/roles.yaml", rules=None):
    """Gives the account of Kubeflow's steps a Role of our manifests, or some of its rules."""
    role, binding = yaml.safe_load_all((MANIFESTS / file).read_text())
    account = {"name": "default-editor", "namespace": cluster.namespace}
    binding["subjects"] = [{"kind": "ServiceAccount"} | account]
    role["rules"] = role["rules"] if rules is None else rules
    for plural, body in (("roles", role), ("rolebindings", binding)):
        resource = Resource("rbac.authorization.k8s.io", "v1", plural)
        cluster.apply(resource, body, cluster.namespace, force="true")


def words(done):
    return [line.split() for line in done.output.splitlines()]


def failed(done):
    return [sentence for verdict, sentence in done.found if verdict == "failed"]


def test_a_pipeline_that_can_run(there, cluster):
    make(cluster, "ConfigMap", "trireme-prices", data={"prices.yaml": PRICES})
    job = 'job={"cpu": 2, "memory": "4Gi", "gpu": 2}'
    done = there(*PIPELINE, "-p", "workers=3", "-p", job, "-p", "budget=11")
    rows = words(done)
    assert ["checkout", "ghcr.io/trireme/base:0.1.0"] in rows
    assert ["evaluate", "ghcr.io/trireme/pytorch:0.1.0"] in rows
    image, gpus = "ghcr.io/trireme/pytorch:0.1.0-cuda", "nvidia.com/gpu"
    assert ["PYTORCHJOB", "PODS", "IMAGE", "CPU", "MEMORY", "DEVICES", "AN", "HOUR"] in rows
    assert ["Master", "1", image, "2", "4Gi", "2", gpus, "6.00", "EUR"] in rows
    assert ["Worker", "3", image, "2", "4Gi", "2", gpus, "18.00", "EUR"] in rows
    assert ["together", "4", "8", "16Gi", "8", gpus, "24.00", "EUR"] in rows
    assert "24.00 EUR an hour of training, at most 11.00 EUR in its time limit of 1,650 s\n" in (
        done.output
    )
    rights = (
        "create, get, list, watch, delete pytorchjobs.kubeflow.org; list, watch, get pods; "
        "get pods/log"
    )
    assert f"the run's service account needs: {rights}\n" in done.output
    *found, room = done.found
    assert "node" in room[1]  # a real cluster may have any number of any size
    assert found == [
        ["ok", f"ServiceAccount default-editor may {rights}"],
        ["ok", "the API server would accept the PyTorchJob"],
        ["ok", "ServiceAccount default-editor exists"],
        ["ok", "Secret trireme-mlflow does not exist, and is optional"],
        ["ok", "Secret trireme-code does not exist, and is optional"],
        ["ok", "Secret trireme-requirements does not exist, and is optional"],
        ["ok", "Secret trireme-dataset does not exist, and is optional"],
        ["ok", "Secret trireme-base-model does not exist, and is optional"],
        ["ok", "Secret trireme-webhook does not exist, and is optional"],
        ["ok", "ConfigMap trireme-prices exists"],
        ["ok", "no ResourceQuota or LimitRange is in the way"],
    ]
    assert "without both nothing is recorded" in done.output
    jobs = KINDS["PyTorchJob"]
    assert cluster.list(jobs, cluster.namespace)["items"] == []


def test_where_kubeflow_has_one_user_runs_are_in_its_own_namespace(standing_in, trireme):
    done = trireme("plan", "pytorch-training", "--target", "kfp")
    assert "checked in namespace kubeflow:" in done.output
    where = "in kubeflow: create it, or name another"
    may_not, is_not = failed(done)
    assert may_not.startswith("ServiceAccount pipeline-runner may not create, get, ")
    assert is_not == f"ServiceAccount pipeline-runner is not {where}"


def test_a_pipeline_for_argo_needs_what_argo_does(argo, there):
    done = there("plan", "pytorch-training", "--target", "argo", "--service-account", "steps")
    assert done.status == 1, done.output
    assert done.output.startswith("pytorch-training on Argo\n")
    of_argo = "create, patch workflowtaskresults.argoproj.io; get workflows.argoproj.io"
    assert f"get pods/log; {of_argo}\n" in done.output
    where = f"in {argo.namespace}: create it, or name another"
    may_not, is_not = failed(done)
    assert may_not.startswith("ServiceAccount steps may not create, get, ")
    assert is_not == f"ServiceAccount steps is not {where}"
    assert ["ok", "Secret trireme-mlflow does not exist, and is optional"] in done.found
    assert ["ok", "the API server would accept the WorkflowTemplate"] in done.found
    assert argo.list(workflows.TEMPLATES, argo.namespace)["items"] == []


def test_a_cluster_without_argo_is_named(standing_in, trireme):
    done = trireme("plan", "pytorch-training", "--target", "argo")
    assert failed(done)[-1] == "the cluster has no workflowtemplates.argoproj.io"


def test_what_is_not_there_is_named(cluster, there):
    make(cluster, "Secret", "oss", stringData={"akId": "me"})
    for name, mode in (("flowers", "ReadOnlyMany"), ("cache", "ReadWriteOnce")):
        storage = {"resources": {"requests": {"storage": "1Gi"}}}
        make(cluster, "PersistentVolumeClaim", name, spec={"accessModes": [mode]} | storage)
    job = '{"scheduling": {"priority": "high", "queue": "gpus"}, "secret_env": {"A": "keys/a"}}'
    claims = ("--dataset-claim", "flowers", "--dataset-claim", "trees", "--cache-claim", "cache")
    secrets = (
        "-p",
        "code_url=https://git.invalid/code.git",
        "-p",
        "code_secret=git",
        "-p",
        "dataset_secret=oss",
        "-p",
        "dataset_uri=oss://bucket/x",
    )
    options = ("-p", 'dataset_options={"region": "cn-hangzhou"}', "-p", f"job={job}")
    done = there(*PIPELINE, *claims, *secrets, *options)
    assert done.status == 1
    where = failed(done)[0].removeprefix("Secret git is not in ")
    assert failed(done) == [
        f"Secret git is not in {where}",
        f"PersistentVolumeClaim trees is not in {where}",
        "PersistentVolumeClaim cache is ReadWriteOnce: it has to be ReadWriteMany",
        "PriorityClass high is not on the cluster: create it, or name another",
        f"Secret keys is not in {where}",
        "LocalQueue gpus: the cluster has no localqueues.kueue.x-k8s.io",
    ]
    assert ["ok", "Secret oss exists"] in done.found
    assert ["ok", "PersistentVolumeClaim flowers exists"] in done.found


def test_a_queue_of_a_later_kueue_is_found(server, standing_in, trireme):
    server.plurals["localqueues"] = "LocalQueue"
    server.fail("GET", "/v1beta1/namespaces/team/localqueues", code=404, times=-1)
    queue = {"kind": "LocalQueue", "metadata": {"name": "gpus"}, "spec": {"clusterQueue": "all"}}
    standing_in.create(checks.RESOURCES["LocalQueue"][1], queue, "team")
    done = trireme(*PIPELINE, "-p", 'job={"scheduling": {"queue": "gpus"}}')
    assert done.status == 0
    assert ["ok", "LocalQueue gpus exists"] in done.found


def test_what_is_left_of_a_quota_has_to_do(server, standing_in, trireme):
    hard = {"requests.cpu": "6", "limits.memory": "100Gi", "requests.storage": "12Gi", "pods": "9"}
    used = {"requests.cpu": "2500m", "limits.memory": "93Gi", "requests.storage": "2Gi"}
    make(
        standing_in,
        "ResourceQuota",
        "team",
        spec={"hard": hard},
        status={"hard": hard, "used": used},
    )
    defaults = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}
    make(standing_in, "LimitRange", "defaults", spec={"limits": [defaults]})
    done = trireme(*PIPELINE, "-p", 'job={"cpu": 2, "memory": "4Gi"}')
    assert (done.status, failed(done)) == (
        1,
        [
            "ResourceQuota team: requests.cpu 4 is needed, but 3.5 of 6 is left: ask for less, or "
            "have the quota raised",
            "ResourceQuota team: limits.memory 8Gi is needed, but 7Gi of 100Gi is left: ask for "
            "less, or have the quota raised",
        ],
    )
    fits = trireme(*PIPELINE, "-p", "workers=0")
    assert (fits.status, failed(fits)) == (0, [])


NODE = {"kind": "Node", "metadata": {"name": "one"}, "spec": {}}
FREE = {"cpu": "2", "memory": "8Gi", "pods": "20"}


def test_the_nodes_need_room(server, standing_in, trireme):
    said = "the cluster has no nodes yet to see if there is room"
    assert ["unknown", said] in trireme(*PIPELINE).found
    standing_in.create(NODES, NODE | {"status": {"allocatable": FREE}})
    assert ["ok", "the nodes have room for all pods of the job"] in trireme(*PIPELINE).found
    for namespace, name, phase in (("a", "x", "Running"), ("b", "y", "Succeeded")):
        container = {"name": "c", "resources": {"requests": {"cpu": "1600m"}}}
        pod = {"metadata": {"name": name}, "spec": {"nodeName": "one", "containers": [container]}}
        standing_in.create(PODS, pod | {"kind": "Pod", "status": {"phase": phase}}, namespace)
    full = trireme(*PIPELINE)
    assert (full.status, failed(full)) == (
        1,
        [
            "no node has room for pod 1 of 1 of role Worker: it requests 0.25 of cpu, and node "
            "one has 0.15 left; ask for less, or make room"
        ],
    )
    server.fail("GET", "/pods", code=403, times=-1)
    said = "you may not list the nodes and their pods to see if there is room"
    done = trireme(*PIPELINE)
    assert (done.status, done.found[-1]) == (0, ["unknown", said])


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, True),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        (("In", ["high"]), True),
        (("In", ["low"]), False),
        (("NotIn", ["low"]), True),
        (("NotIn", ["high"]), False),
        (("Exists", None), True),
        (("DoesNotExist", None), False),
    ],
)
def test_a_quota_counts_only_what_it_is_for(standing_in, spec, counts):
    if isinstance(spec, tuple):
        expression = {"scopeName": "PriorityClass", "operator": spec[0], "values": spec[1]}
        spec = {"scopeSelector": {"matchExpressions": [expression]}}
    make(
        standing_in,
        "ResourceQuota",
        "none",
        spec=spec | {"hard": {"count/pytorchjobs.kubeflow.org": "0"}},
    )
    job = TrainingJob.create(entrypoint="train.py", scheduling={"priority": "high"})
    assert bool(problems(standing_in, job)) is counts


@pytest.mark.parametrize(("scope", "counts"), [("Terminating", True), ("NotTerminating", False)])
def test_a_job_with_a_time_limit_counts_as_one_that_ends(standing_in, scope, counts):
    spec = {"scopes": [scope], "hard": {"pods": "0"}}
    make(standing_in, "ResourceQuota", "none", spec=spec)
    job = TrainingJob.create(entrypoint="train.py", time_limit=60)
    assert bool(problems(standing_in, job)) is counts


@pytest.mark.parametrize(("scope", "counts"), [("NotTerminating", True), ("NotBestEffort", False)])
def test_steps_count_as_pods_that_request_nothing(standing_in, scope, counts):
    spec = {"scopes": [scope], "hard": {"cpu": "90"}}
    make(standing_in, "ResourceQuota", "some", spec=spec)
    job = TrainingJob.create(entrypoint="train.py")
    found = problems(standing_in, job, workspace="1Gi")
    assert [problem for problem in found if "which the steps' pods do not set" in problem] == (
        found if counts else []
    )
    assert bool(found) is counts


def test_steps_that_request_nothing_need_defaults_where_there_is_a_quota(cluster, there):
    make(cluster, "ResourceQuota", "team", spec={"hard": {"limits.cpu": "90", "memory": "90Gi"}})
    assert failed(there(*PIPELINE)) == [
        "ResourceQuota team: it requires limits.cpu of every pod, which the steps' pods do "
        "not set: add a LimitRange with a default for it",
        "ResourceQuota team: it requires memory of every pod, which the steps' pods do not set: "
        "add a LimitRange with a defaultRequest for it",
    ]
    assert there("job", "plan", "job.yaml").status == 0  # its pods say all


def test_sizes_that_are_not_allowed_are_named(cluster, there):
    limits = [
        {"type": "Container", "max": {"memory": "3Gi"}},
        {"type": "Pod", "min": {"cpu": "3"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}},
    ]
    make(cluster, "LimitRange", "sizes", spec={"limits": limits})
    assert failed(there(*PIPELINE, "-p", "workers=0")) == [
        "LimitRange sizes: container pytorch of role Master has more than 3Gi of memory",
        "LimitRange sizes: a pod of role Master has less than 3 of cpu",
        "LimitRange sizes: the run's workspace has more than 5Gi of storage",
    ]


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"min": {"ephemeral-storage": "1Gi"}}, "1Gi"),
        ({"max": {"ephemeral-storage": "3Gi"}}, "3Gi"),
        ({"max": {"ephemeral-storage": "3Gi"}, "default": {"ephemeral-storage": "2Gi"}}, "2Gi"),
        (
            {
                "min": {"ephemeral-storage": "1Gi"},
                "defaultRequest": {"ephemeral-storage": "2Gi"},
                "default": {"ephemeral-storage": "4Gi"},
            },
            "2Gi",
        ),
    ],
)
def test_what_a_job_does_not_request_is_what_a_limit_range_says(standing_in, limit, asked):
    make(standing_in, "LimitRange", "sizes", spec={"limits": [{"type": "Container"} | limit]})
    job = TrainingJob.create(entrypoint="train.py")
    assert problems(standing_in, job) == []
    hard = {"requests.ephemeral-storage": "0"}
    make(standing_in, "ResourceQuota", "team", spec={"hard": hard})
    (problem,) = problems(standing_in, job)
    assert problem.startswith(
        f"ResourceQuota team: requests.ephemeral-storage {asked} is needed, but 0Gi of 0 is left"
    )


def test_a_request_that_a_limit_range_lets_nobody_make_is_named(standing_in):
    limit = {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "3"}}
    make(standing_in, "LimitRange", "sizes", spec={"limits": [limit]})
    (problem,) = problems(standing_in, TrainingJob.create(entrypoint="train.py", cpu=1))
    assert problem == "LimitRange sizes: container pytorch of role Master has less than 2 of cpu"


def test_a_job_that_the_api_server_would_refuse_fails_the_check(server, standing_in, trireme):
    server.fail("POST", "dryRun", code=422, message="spec.runPolicy: too bad")
    done = trireme(*PIPELINE)
    assert (done.status, failed(done)) == (
        1,
        ["the cluster finds it invalid: spec.runPolicy: too bad"],
    )


def test_what_is_not_allowed_is_named_and_what_cannot_be_seen_is_not_known(
    server, standing_in, trireme
):
    watching = {"resources": ["pods", "pods/log"], "verbs": ["get", "list", "watch"]}
    allow(standing_in, rules=[watching | {"apiGroups": [""]}])
    server.denied = {"create pytorchjobs"}  # who plans may not make them, either
    server.fail("POST", "/pytorchjobs", code=403, times=-1)
    for plural in ("secrets", "configmaps", "resourcequotas"):
        server.fail("GET", f"/{plural}", code=403, times=-1)
    done = trireme(*PIPELINE, "-p", "budget=3")
    assert done.status == 1
    assert failed(done) == [
        "ServiceAccount default-editor may not create, get, list, watch, delete "
        "pytorchjobs.kubeflow.org; the Roles and RoleBindings of an overlay in manifests/overlays "
        "allow what is needed"
    ]
    assert [sentence for verdict, sentence in done.found if verdict == "unknown"] == [
        "you may not check whether the API server would accept the PyTorchJob",
        "Secret trireme-mlflow: you may not check whether it exists",
        "Secret trireme-code: you may not check whether it exists",
        "Secret trireme-requirements: you may not check whether it exists",
        "Secret trireme-dataset: you may not check whether it exists",
        "Secret trireme-base-model: you may not check whether it exists",
        "Secret trireme-webhook: you may not check whether it exists",
        "ConfigMap trireme-prices: you may not check whether it exists",
        "you may not list resourcequotas and limitranges to see if it fits",
        "the cluster has no nodes yet to see if there is room",
    ]


def test_a_job_alone_is_for_this_user_to_make(server, trireme, tmp_path):
    (tmp_path / "job.yaml").write_text("{framework: pytorch, entrypoint: train.py}")
    server.denied = {"create pytorchjobs"}
    done = trireme("job", "plan", "job.yaml")
    assert [sentence.partition(" in ")[0] for sentence in failed(done)] == [
        "this user may not create pytorchjobs.kubeflow.org"
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "budget 3: needs a price table, "),
        ({"prices": PRICES}, "ConfigMap trireme-prices: has no key prices.yaml\n"),
        (
            {"prices.yaml": "currency: EUR"},
            "price table in ConfigMap trireme-prices: prices.cpu_hour is needed; ",
        ),
    ],
)
def test_a_budget_needs_prices_that_can_be_read(standing_in, trireme, data, said):
    if data:
        make(standing_in, "ConfigMap", "trireme-prices", data=data)
    done = trireme(*PIPELINE, "-p", "budget=3")
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"error: {said}")


def test_a_job_without_a_pipeline_is_planned_too(server, trireme, untracked, tmp_path):
    untracked.mkdir()
    (untracked / "prices.yaml").write_text(PRICES)
    (tmp_path / "job.yaml").write_text(
        "{name: digits, entrypoint: train.py, workers: 1, gpu: 1, time_limit: 1800, cpu: 2,"
        " memory: 4Gi,"
        " image_pull_secrets: [registry], service_account: trainer, volumes: ["
        "{mount: /workspace, claim: results}, {mount: /c, config_map: c}, {mount: /s, secret: s}]}"
    )
    done = trireme("job", "plan", "job.yaml", "--operator", "trainer", "--no-check")
    assert done.status == 0
    image = "ghcr.io/trireme/pytorch:0.1.0-cuda"
    for role in ("master", "worker"):
        assert [role, "1", image, "2", "4Gi", "1", "nvidia.com/gpu", "4.00", "EUR"] in words(done)
    assert "8.00 EUR an hour of training, at most 4.00 EUR in its time limit of 1,800 s\n" in (
        done.output
    )
    assert (
        "yours: create, get, list, watch, delete trainjobs.trainer.kubeflow.org; "
        "create, patch, delete trainingruntimes.trainer.kubeflow.org; " in done.output
    )
    assert done.output.endswith("\nnot checked on a cluster\n")
    assert server.requests == []
    checked = trireme("job", "plan", "job.yaml")
    assert checked.status == 1
    assert [sentence.partition(" is not")[0] for sentence in failed(checked)] == [
        "ServiceAccount trainer",
        "Secret registry",
        "PersistentVolumeClaim results",
        "ConfigMap c",
        "Secret s",
    ]


def test_without_a_cluster_nothing_is_checked(trireme, monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = trireme(*PIPELINE, "-p", "budget=3")
    assert (done.status, done.found) == (0, [])
    assert done.output.endswith("\nnot checked on a cluster\n")
    assert "EUR" not in done.output


def test_deploying_needs_rights_too(trireme):
    retraining = ("plan", "retraining", "--target", "kfp", "--no-check")
    assert "deployments.apps" not in trireme(*retraining).output
    said = trireme(*retraining, "-p", "deploy=deployment").output
    assert "delete deployments.apps; get, create, patch, delete services" in said
    said = trireme(*retraining, "-p", "deploy=kserve").output
    assert "get, create, patch, delete inferenceservices.serving.kserve.io" in said


def test_a_sweep_runs_two_at_a_time_here(trireme):
    done = trireme("plan", "sweep", "-p", 'grid={"--width": [16, 32, 64]}')
    assert "3 such jobs, up to 2 at a time\n" in done.output


def test_what_a_sweep_runs_at_the_same_time_has_to_fit(standing_in, trireme):
    make(standing_in, "ConfigMap", "trireme-prices", data={"prices.yaml": PRICES})
    make(standing_in, "ResourceQuota", "team", spec={"hard": {"requests.nvidia.com/gpu": "7"}})
    trials = 'grid={"workers": [1, 2], "--width": [16, 32, 64]}'
    sweep = ("plan", "sweep", *ON_KUBEFLOW, "-p", trials, "-p", "budget=9")
    job = 'job={"cpu": 2, "memory": "4Gi", "gpu": 1}'
    done = trireme(*sweep, "-p", job, "-p", "framework=tensorflow")
    assert done.status == 1, done.output
    rows = words(done)
    assert ["trial", "ghcr.io/trireme/tensorflow:0.1.0"] in rows
    assert "6 such jobs, up to 4 at a time\n" in done.output
    assert "9.00 EUR in its time limit of 4,050 s, 54.00 EUR in all\n" in done.output
    assert failed(done) == [
        "ResourceQuota team: requests.nvidia.com/gpu 8 is needed, but 7 of 7 is left: ask for "
        "less, or have the quota raised"
    ]


def test_a_run_here_is_planned_with_the_prices_here(trireme, untracked, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    untracked.mkdir()
    (untracked / "prices.yaml").write_text(PRICES)
    job = ("-p", 'job={"cpu": 2, "memory": "4Gi"}', "-p", "parameter_servers=1")
    done = trireme("plan", "tensorflow-training", *job, "-p", "budget=8")
    assert done.status == 0
    image = "ghcr.io/trireme/tensorflow:0.1.0"
    assert ["Worker", "2", image, "2", "4Gi", "4.00", "EUR"] in words(done)
    assert "8.00 EUR an hour of training, at most 8.00 EUR in its time limit of 3,600 s\n" in (
        done.output
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("pytorch-training", "--cache-claim", "cache"),
            "--cache-claim needs --target kfp",
        ),
        (
            ("pytorch-training", "--target", "aws"),
            "--target 'aws': must be one of local, kfp, argo",
        ),
        (
            ("pytorch-training", "--service-account", "me"),
            "--service-account needs --target argo",
        ),
        (("pytorch",), "there is no pipeline 'pytorch'; did you mean pytorch-training?"),
        (("pytorch-training", "-p", "worker=2"), "pytorch-training has no parameter 'worker'; "),
    ],
)
def test_what_cannot_be_planned_is_refused(trireme, arguments, said):
    done = trireme("plan", *arguments)
    assert (done.status, done.output) == (2, "")
    assert done.errors.startswith(f"error: {said}")


def test_an_mpijob_of_another_version_is_told_from_ours(trireme, server, tmp_path):
    """As where the training operator is, and the MPI operator is not."""
    del server.plurals["mpijobs"]
    del server.plurals["trainjobs"]
    (tmp_path / "job.yaml").write_text("{framework: mpi, entrypoint: train.py}")
    done = trireme("job", "plan", "job.yaml")
    assert done.status == 1
    assert (
        "the cluster has no MPIJob (kubeflow.org/v2beta1): install Kubeflow Trainer v2.2 or newer, "
        "or the Kubeflow MPI operator v0.8 with its own CRD mpijobs.kubeflow.org, in place of the "
        "training operator's, which has another version (docs/cluster.md)" in done.output
    )


def test_deploying_is_for_the_steps_account_to_do(standing_in, server, trireme):
    """By the command line a person deploys, in a pipeline the account of its steps."""
    planned = ("plan", "retraining", *ON_KUBEFLOW, "-p", "deploy=deployment")
    done = trireme(*planned)
    (sentence,) = failed(done)
    assert sentence.startswith("ServiceAccount default-editor may not get, create, patch, delete ")
    assert sentence.endswith("trireme-deployer in manifests/parts/deploying allow what is needed")
    allow(standing_in, "parts/deploying/roles.yaml")
    done = trireme(*planned)
    assert done.status == 0, done.output
    server.fail("POST", "/localsubjectaccessreviews$", code=403)
    done = trireme(*planned)
    assert done.status == 0, done.output
    unknown = [sentence for verdict, sentence in done.found if verdict == "unknown"]
    said = "ServiceAccount default-editor: you may not see what it may do; "
    assert any(sentence.startswith(said) for sentence in unknown)
    server.username = "system:serviceaccount:team:default-editor"  # as in a notebook of Kubeflow's
    done = trireme(*planned)
    assert any(
        sentence.startswith("ServiceAccount default-editor may ") for _, sentence in done.found
    )
