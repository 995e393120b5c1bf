"""Training jobs that show what a description can say, one for each golden manifest."""

from typing import Any

from hypothesis import strategies as st

from trireme.frameworks import FRAMEWORKS

IMAGE = "example.org/team/trainer:1.2"

EVERYTHING: dict[str, Any] = {
    "name": "everything",
    "image": IMAGE,
    "entrypoint": "train.py",
    "args": ["--epochs", "3", "--name", "a $(b) $$c", ""],
    "env": {"SEED": "7", "GREETING": "$(CODE_DIR)"},
    "secret_env": {"MLFLOW_TRACKING_PASSWORD": "mlflow/password"},
    "replicas": {
        "master": {"cpu": "4", "shared_memory": "1Gi"},
        "worker": {"count": 2, "restart_policy": "ExitCode"},
    },
    "processes_per_worker": 2,
    "cpu": "8",
    "memory": "64Gi",
    "gpu": 2,
    "devices": {"example.org/fpga": 1},
    "shared_memory": "16Gi",
    "retries": 3,
    "time_limit": 3600,
    "time_to_live": 600,
    "clean_up": "All",
    "suspend": True,
    "scheduling": {
        "queue": "research",
        "priority": "high",
        "gang": True,
        "node_selector": {"example.org/zone": "a"},
        "tolerations": [
            {"key": "example.org/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "value": "vision", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "topology.kubernetes.io/zone",
                            "labelSelector": {"matchLabels": {"team": "vision"}},
                        },
                    }
                ]
            }
        },
        "spot": "gke",
    },
    "network": {
        "interface": "eth0",
        "nccl": {"NCCL_DEBUG": "INFO"},
        "rdma": "rdma/hca",
    },
    "code": {"url": "https://example.org/team/code.git", "revision": "v1.2"},
    "dataset": "builtin://digits",
    "tracking": {"uri": "https://mlflow.example.org", "experiment": "digits"},
    "volumes": [
        {"mount": "/workspace", "claim": "workspace", "sub_path": "team"},
        {"mount": "/nas", "nfs": "nas.example.org:/export", "read_only": True},
        {"mount": "/etc/team", "config_map": "team"},
        {"mount": "/etc/keys", "secret": "keys"},
        {"mount": "/scratch", "host_path": "/mnt/disk0"},
    ],
    "data_dir": "/data",
    "labels": {"team": "vision"},
    "annotations": {"example.org/purpose": "a long text, with anything in it"},
    "image_pull_secrets": ["registry"],
    "service_account": "trainer",
    "run_as_user": 1000,
    "metrics_port": 9400,
}

SHAPES: dict[str, dict[str, Any]] = {
    "pytorch": {"image": IMAGE, "entrypoint": "train.py", "workers": 2},
    "pytorch-alone": {"entrypoint": "train.py"},
    "pytorch-processes": {"entrypoint": "train.py", "workers": 2, "processes_per_worker": 2},
    "pytorch-module": {"module": "team.train", "args": ["--lr", "0.1"], "workers": 1},
    "pytorch-cached": {
        "entrypoint": "train.py",
        "dataset": {
            "uri": "oss://bucket/flowers",
            "region": "cn-hangzhou",
            "secret": "oss",
            "cache": "datasets",
        },
    },
    "pytorch-everything": EVERYTHING,
    "elastic": {
        "name": "elastic",
        "entrypoint": "train.py",
        "gpu": 1,
        "workers": 4,
        "elastic": {"min": 1, "max": 8, "max_restarts": 10},
        "scheduling": {"spot": "karpenter"},
    },
    "kueue": {
        "entrypoint": "train.py",
        "workers": 1,
        "scheduling": {"queue": "team", "priority": "low"},
    },
    "custom": {
        "framework": "custom",
        "image": IMAGE,
        "command": ["/bin/train", "--peers=$(WORLD_SIZE)", "$(RANK)"],
        "workers": 3,
    },
    "tensorflow-allreduce": {
        "framework": "tensorflow",
        "entrypoint": "train.py",
        "workers": 2,
        "success_policy": "AllWorkers",
        "restart_policy": "ExitCode",
    },
    "tensorflow-ps": {
        "framework": "tensorflow",
        "entrypoint": "train.py",
        "gpu": 1,
        "replicas": {
            "chief": {"cpu": "4", "memory": "8Gi"},
            "ps": {"count": 2, "memory": "32Gi"},
            "worker": {"count": 4},
            "evaluator": {"gpu": 0, "command": ["python3", "evaluate.py"], "args": ["--all"]},
        },
    },
    "mpi": {
        "framework": "mpi",
        "entrypoint": "train.py",
        "args": ["--steps", "10"],
        "workers": 2,
        "processes_per_worker": 2,
        "retries": 1,
    },
    "mpi-gpus": {
        "framework": "mpi",
        "image": IMAGE,
        "command": ["horovodrun", "-np", "16", "python3", "train.py"],
        "gpu": 8,
        "network": {"rdma": "rdma/hca"},
        "replicas": {"launcher": {"cpu": "1", "memory": "1Gi"}, "worker": {"count": 2}},
        "processes_per_worker": 8,
        "scheduling": {"gang": True, "spot": "aks"},
    },
    "jax": {"framework": "jax", "entrypoint": "train.py", "workers": 2, "time_limit": 600},
    "xgboost": {"framework": "xgboost", "entrypoint": "train.py", "workers": 2},
}
"""For the training operator and the MPI operator, by the name of the golden file."""

_OF_VOLCANO = EVERYTHING["scheduling"] | {"gang": "volcano"}

TRAINJOBS: dict[str, dict[str, Any]] = {
    f"trainjob-{name}": fields
    for name, fields in SHAPES.items()
    if name
    in (
        "pytorch",
        "pytorch-processes",
        "elastic",
        "custom",
        "tensorflow-ps",
        "mpi",
        "jax",
        "xgboost",
    )
} | {
    "trainjob-everything": EVERYTHING | {"scheduling": _OF_VOLCANO},
    "trainjob-mpi-foreign": SHAPES["mpi"] | {"image": IMAGE},
    "trainjob-runtime-pytorch": {
        "runtime": "torch-distributed",
        "image": IMAGE,
        "entrypoint": "train.py",
        "args": ["--name", "a $(b) $$c"],
        "workers": 2,
        "processes_per_worker": 4,
        "gpu": 4,
        "time_limit": 3600,
        "suspend": True,
        "scheduling": {"queue": "team", "node_selector": {"example.org/zone": "a"}},
        "volumes": [{"mount": "/workspace", "claim": "workspace"}],
        "dataset": "pvc://data/digits",
        "data_dir": "/data",
        "secret_env": {"TOKEN": "registry/token"},
        "service_account": "trainer",
        "image_pull_secrets": ["registry"],
        "run_as_user": 1000,
    },
    "trainjob-runtime-mpi": {
        "runtime": "deepspeed-distributed",
        "framework": "mpi",
        "image": IMAGE,
        "entrypoint": "train.py",
        "workers": 2,
        "processes_per_worker": 2,
    },
}
"""For Trainer v2, by the name of the golden file."""


TEXT = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
"""Any text that a process can be given."""

_VARIABLES = st.sampled_from(
    ["A", "_b", "PATH", "PYTHONPATH", "MLFLOW_TRACKING_URI", "NCCL_DEBUG", "OMPI_MCA_btl"]
)
_KEYS = st.sampled_from(["team", "example.org/team", "a.b_C-d"])
_LABELS = st.sampled_from(["", "a", "A.b_c-9", 63 * "x"])
_PROGRAMS = st.one_of(
    st.fixed_dictionaries({"entrypoint": st.sampled_from(["train.py", "a b/$(X).py"])}),
    st.just({"module": "team.train"}),
    st.fixed_dictionaries({"command": st.lists(TEXT, min_size=1, max_size=3)}),
)
_REPLICA = st.fixed_dictionaries(
    {},
    optional={
        "image": st.just(IMAGE),
        "command": st.just(["run"]),
        "args": st.lists(TEXT, max_size=2),
        "restart_policy": st.sampled_from(["Never", "OnFailure"]),
        "cpu": st.sampled_from(["500m", "0.5", "4"]),
        "gpu": st.integers(0, 8),
        "devices": st.just({"amd.com/gpu": 1}),
    },
)
_SCHEDULING = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.just("team.a"),
        "priority": st.just("high"),
        "gang": st.sampled_from([False, True, "coscheduling", "volcano"]),
        "scheduler": st.just("second-scheduler"),
        "spot": st.sampled_from(["aks", "eks", "gke", "karpenter"]),
        "node_selector": st.dictionaries(_KEYS, _LABELS, max_size=2),
    },
)
_VOLUME = st.fixed_dictionaries(
    {
        "mount": st.sampled_from(["/a", "/a/b", "/workspace", "/mnt//c/", "/root"]),
        "claim": st.just("claim"),
    },
    optional={"read_only": st.booleans(), "sub_path": st.just("a/b")},
)
_MORE = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "train", "a-1", 44 * "a"])},
    optional={
        "args": st.lists(TEXT, max_size=3),
        "env": st.dictionaries(_VARIABLES, TEXT, max_size=3),
        "workers": st.integers(1, 999),
        "time_limit": st.integers(1, 2**31 - 1),
        "gpu": st.integers(0, 8),
        "shared_memory": st.sampled_from(["1Gi", "64M", "1e9"]),
        "network": st.fixed_dictionaries(
            {}, optional={"interface": st.just("eth0"), "rdma": st.just("rdma/hca")}
        ),
        "tracking": st.just({"uri": "https://mlflow.example.org"}),
        "dataset": st.sampled_from(["pvc://data/a/b", "pvc://data", "nfs://server/path"]),
        "volumes": st.lists(_VOLUME, max_size=2),
        "data_dir": st.sampled_from(["/data", "/mnt/data/", "/root//data"]),
        "labels": st.dictionaries(_KEYS, _LABELS, max_size=2),
        "annotations": st.dictionaries(_KEYS, TEXT, max_size=2),
        "image_pull_secrets": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        "suspend": st.booleans(),
    },
)
_OF_RUN_POLICY = st.fixed_dictionaries(
    {},
    optional={
        "retries": st.integers(0, 3),
        "restart_policy": st.sampled_from(["OnFailure", "ExitCode"]),
        "time_to_live": st.integers(0, 2**31 - 1),
        "clean_up": st.sampled_from(["Running", "All", "None"]),
        "scheduling": _SCHEDULING,
        "code": st.just({"url": "https://example.org/code.git"}),
        "secret_env": st.dictionaries(_VARIABLES, st.just("secret/key"), max_size=1),
    },
)


@st.composite
def descriptions(draw: st.DrawFn, operator: str) -> dict[str, Any]:
    """Makes descriptions with anything in them; most of them are right."""
    fields = draw(_MORE) | draw(_PROGRAMS)
    if operator == "trainer" and draw(st.booleans()):
        framework = draw(st.sampled_from(["pytorch", "mpi"]))
        runtime = {"pytorch": "torch-distributed", "mpi": "deepspeed-distributed"}[framework]
        return fields | {"framework": framework, "runtime": runtime}
    framework = draw(st.sampled_from(list(FRAMEWORKS)))
    fields |= draw(_OF_RUN_POLICY) | {"framework": framework}
    roles = [role.name for role in FRAMEWORKS[framework].roles if role.name != "worker"]
    if framework == "pytorch" and draw(st.booleans()):
        return fields | {"workers": 3, "elastic": {"min": 2, "max": draw(st.integers(3, 9))}}
    replicas = st.dictionaries(st.sampled_from(roles), _REPLICA) if roles else st.just({})
    return fields | {"replicas": draw(replicas)}
