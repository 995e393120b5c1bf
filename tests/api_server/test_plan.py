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
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, Forbidden
from trireme.kubernetes.nodes import NODES
from trireme.kubernetes.resources import PODS, Resource
from trireme.manifests import render
from trireme.manifests.roles import roles
from trireme.runner.cluster import checks
from trireme.targets.argo import workflows

MANIFESTS = Path(__file__).parents[2] / "manifests"
PRICES = "{currency: EUR, cpu_hour: 0.5, gib_hour: 0.25, gpu_hour: 2}"
ON_KUBEFLOW = ("--target", "kfp", "--namespace", "team")
ON_A_REAL_ONE = pytest.mark.parametrize(
    "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
LIMIT_RANGES = Resource("", "v1", "limitranges")
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


def problems(cluster, job):
    """Returns why a job would not fit into the cluster's namespace."""
    pods = [(role.name, role.count, role.pod) for role in roles(render(job))]
    return quota.problems(cluster, pods)


@pytest.fixture
def there(trireme, cluster):
    """Runs a command in the test's own namespace, a profile of Kubeflow's with our rights in it."""
    with suppress(AlreadyThere):
        make(cluster, "ServiceAccount", "default-editor")
        allow(cluster)
    return lambda *arguments: trireme(*arguments, "--namespace", cluster.namespace)


def make(cluster, kind, name, **fields):
    """Makes an object on the cluster."""
    own = {"ResourceQuota": quota.QUOTAS, "LimitRange": LIMIT_RANGES}
    resource = own.get(kind) or checks.RESOURCES[kind][0]
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}} | fields
    cluster.create(resource, body, cluster.namespace)


def enforce(cluster, name, hard):
    """Makes a quota that nothing is used of, with its status, which a controller writes."""
    make(cluster, "ResourceQuota", name, spec={"hard": hard})
    path = quota.QUOTAS.path(cluster.namespace, name, "status")
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    cluster.request("PATCH", quota.QUOTAS, path, body={"status": status})


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
    assert ["TRAINJOB", "PODS", "IMAGE", "CPU", "MEMORY", "DEVICES", "AN", "HOUR"] in rows
    assert ["master", "1", image, "2", "4Gi", "2", gpus, "6.00", "EUR"] in rows
    assert ["worker", "3", image, "2", "4Gi", "2", gpus, "18.00", "EUR"] in rows
    assert ["together", "4", "8", "16Gi", "8", gpus, "24.00", "EUR"] in rows
    assert "24.00 EUR an hour of training, at most 11.00 EUR in its time limit of 1,650 s\n" in (
        done.output
    )
    rights = (
        "create, get, list, watch, delete trainjobs.trainer.kubeflow.org; "
        "create, patch, delete trainingruntimes.trainer.kubeflow.org; list, watch, get pods; "
        "get pods/log"
    )
    assert f"the run's service account needs: {rights}\n" in done.output
    *found, room = done.found
    assert "node" in room[1]  # a real cluster may have any number of any size
    assert found == [
        ["ok", f"ServiceAccount default-editor may {rights}"],
        ["ok", "the API server would accept the TrainJob"],
        ["ok", "ServiceAccount default-editor exists"],
        ["ok", "Secret trireme-mlflow does not exist, and is optional"],
        ["ok", "Secret trireme-code does not exist, and is optional"],
        ["ok", "Secret trireme-requirements does not exist, and is optional"],
        ["ok", "Secret trireme-dataset does not exist, and is optional"],
        ["ok", "Secret trireme-base-model does not exist, and is optional"],
        ["ok", "Secret trireme-webhook does not exist, and is optional"],
        ["ok", "ConfigMap trireme-prices exists"],
        ["ok", "the API server would accept the pods"],
        ["ok", "no ResourceQuota is in the way of all pods together"],
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
    hard = {"requests.cpu": "6", "limits.memory": "100Gi", "pods": "9", "services": "0"}
    used = {"requests.cpu": "2500m", "limits.memory": "93Gi"}
    status = {"hard": hard, "used": used}
    make(standing_in, "ResourceQuota", "team", spec={"hard": hard}, status=status)
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


def test_the_nodes_have_to_be_large_enough(server, standing_in, trireme):
    said = "the cluster has no nodes yet to see if they are large enough"
    assert ["unknown", said] in trireme(*PIPELINE).found
    standing_in.create(NODES, NODE | {"status": {"allocatable": FREE}})
    assert ["ok", "the nodes are large enough for the pods of each role"] in trireme(
        *PIPELINE
    ).found
    full = trireme(*PIPELINE, "-p", 'job={"cpu": 3}')
    assert (full.status, failed(full)) == (
        1,
        [
            "no node is large enough for a pod of role master: it requests 3 of cpu, and node one "
            "has 2; ask for less"
        ],
    )
    server.fail("GET", "/nodes", code=403, times=-1)
    said = "you may not list the nodes to see if they are large enough"
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
        spec=spec | {"hard": {"pods": "0"}},
    )
    job = TrainingJob.create(entrypoint="train.py", scheduling={"priority": "high"})
    assert bool(problems(standing_in, job)) is counts


@pytest.mark.parametrize(("scope", "counts"), [("Terminating", True), ("NotTerminating", False)])
def test_a_job_with_a_time_limit_counts_as_one_that_ends(standing_in, scope, counts):
    spec = {"scopes": [scope], "hard": {"pods": "0"}}
    make(standing_in, "ResourceQuota", "none", spec=spec)
    job = TrainingJob.create(entrypoint="train.py", time_limit=60)
    assert bool(problems(standing_in, job)) is counts


STEP = "a step's pod, which requests nothing, would be refused: "
MUST = "failed quota: team: must specify "
TAKEN = ["ok", "the API server would accept the pods"]


def test_steps_that_request_nothing_need_defaults_where_there_is_a_quota(
    standing_in, trireme, monkeypatch
):
    create = Cluster.create

    def refuse(self, resource, body, *arguments, **query):
        containers = body.get("spec", {}).get("containers") if resource == PODS else None
        if containers and not containers[0]["resources"]:
            raise Forbidden(f"not allowed on the cluster: {MUST}limits.cpu for: pytorch")
        return create(self, resource, body, *arguments, **query)

    monkeypatch.setattr(Cluster, "create", refuse)
    done = trireme(*PIPELINE)
    assert failed(done) == [f"{STEP}{MUST}limits.cpu for: pytorch; add a LimitRange with defaults"]
    assert TAKEN not in done.found
    assert trireme("job", "plan", "job.yaml").status == 0  # its pods say all


def test_a_volume_that_would_be_refused_is_named(server, standing_in, trireme):
    range_ = "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"
    server.fail("POST", "/persistentvolumeclaims", times=-1, code=403, message=range_)
    done = trireme(*PIPELINE)
    assert failed(done) == [f"the run's workspace would be refused: {range_}"]
    server.denied = {"create persistentvolumeclaims"}  # those of runs are made by others
    assert failed(trireme(*PIPELINE)) == []


def test_who_may_make_no_pods_is_told_that_none_was_tried(server, standing_in, trireme):
    server.denied = {"create pods"}
    said = "you may not create pods to see if the API server would accept them"
    done = trireme(*PIPELINE)
    assert done.status == 0
    assert ["unknown", said] in done.found and TAKEN not in done.found


@pytest.mark.parametrize("refused", [False, True])
def test_of_a_runtime_of_the_cluster_the_amounts_are_tried(server, standing_in, trireme, refused):
    Path("job.yaml").write_text("{entrypoint: train.py, image: i, runtime: torch-distributed}")
    said = "maximum memory usage per Container is 3Gi, but limit is 4Gi" if refused else "no user"
    message = f'pods "x" is forbidden: {said}'
    server.fail("POST", r"/pods\?dryRun", times=-1, code=403, message=message)
    done = trireme("job", "plan", "job.yaml", "--operator", "trainer")
    assert failed(done) == ([f"a pod of role node would be refused: {said}"] if refused else [])


@ON_A_REAL_ONE
def test_what_the_api_server_says_of_sizes_is_said(cluster, there):
    limits = [
        {"type": "Container", "max": {"memory": "3Gi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}},
    ]
    make(cluster, "LimitRange", "sizes", spec={"limits": limits})
    assert failed(there(*PIPELINE)) == [
        "a pod of role master would be refused: maximum memory usage per Container is 3Gi, but "
        "limit is 4Gi"
    ]
    assert failed(there(*PIPELINE, "-p", 'job={"memory": "2Gi"}')) == [
        "the run's workspace would be refused: maximum storage usage per PersistentVolumeClaim "
        "is 5Gi, but request is 10Gi"
    ]


@ON_A_REAL_ONE
def test_what_the_api_server_says_of_steps_is_said(cluster, there):
    enforce(cluster, "team", {"limits.cpu": "90", "memory": "90Gi"})
    needed = f"{MUST}limits.cpu for: pytorch; memory for: pytorch"
    assert failed(there(*PIPELINE)) == [f"{STEP}{needed}; add a LimitRange with defaults"]
    assert failed(there("job", "plan", "job.yaml")) == []  # its pods say all


@ON_A_REAL_ONE
def test_what_a_limit_range_gives_pods_counts_in_a_quota(cluster, there):
    given = {"type": "Container", "defaultRequest": {"ephemeral-storage": "1Gi"}}
    make(cluster, "LimitRange", "sizes", spec={"limits": [given]})
    enforce(cluster, "team", {"requests.ephemeral-storage": "1500Mi"})
    assert failed(there(*PIPELINE)) == [
        "ResourceQuota team: requests.ephemeral-storage 2Gi is needed, but 1.465Gi of 1500Mi is "
        "left: ask for less, or have the quota raised"
    ]


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
    server.denied = {"create trainjobs"}  # who plans may not make them, either
    server.fail("POST", "/trainingruntimes", code=403, times=-1)
    for plural in ("secrets", "configmaps", "resourcequotas"):
        server.fail("GET", f"/{plural}", code=403, times=-1)
    done = trireme(*PIPELINE, "-p", "budget=3")
    assert done.status == 1
    assert failed(done) == [
        "ServiceAccount default-editor may not create, get, list, watch, delete "
        "trainjobs.trainer.kubeflow.org; create, patch, delete "
        "trainingruntimes.trainer.kubeflow.org; the Roles and RoleBindings of an overlay in "
        "manifests/overlays allow what is needed"
    ]
    assert [sentence for verdict, sentence in done.found if verdict == "unknown"] == [
        "you may not check whether the API server would accept the TrainJob",
        "Secret trireme-mlflow: you may not check whether it exists",
        "Secret trireme-code: you may not check whether it exists",
        "Secret trireme-requirements: you may not check whether it exists",
        "Secret trireme-dataset: you may not check whether it exists",
        "Secret trireme-base-model: you may not check whether it exists",
        "Secret trireme-webhook: you may not check whether it exists",
        "ConfigMap trireme-prices: you may not check whether it exists",
        "you may not list resourcequotas to see if all pods fit",
        "the cluster has no nodes yet to see if they are large enough",
    ]


def test_a_job_alone_is_for_this_user_to_make(server, trireme, tmp_path):
    (tmp_path / "job.yaml").write_text("{framework: pytorch, entrypoint: train.py}")
    server.denied = {"create trainjobs"}
    done = trireme("job", "plan", "job.yaml")
    assert [sentence.partition(" in ")[0] for sentence in failed(done)] == [
        "this user may not create trainjobs.trainer.kubeflow.org"
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
        "training operator's, which has another version (docs/how-to/set-up-a-cluster.md)"
        in done.output
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
