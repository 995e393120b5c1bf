"""What is advised, by what has been measured: nothing without evidence."""

from collections import Counter
from dataclasses import replace

import pytest

from trireme.cli.job.advise import advise
from trireme.cost.prices import Prices
from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.kubernetes.amounts import quantities
from trireme.manifests import render
from trireme.observers.advice import at_end, frames, words
from trireme.observers.advice.at_end import Advice
from trireme.observers.advice.frames import Frame, Thread
from trireme.observers.advice.measured import Asked, Gpu, Measured, Use
from trireme.observers.advice.suggestions import save_as_often, suggestions
from trireme.observers.base import Observers
from trireme.observers.goodput.ledger import Ledger
from trireme.observers.timeline import NAME, Timeline
from trireme.runner.local import runner, stacks, usage
from trireme.runner.local.looking import Looking

PRICES = Prices(currency="EUR", cpu_hour=0.05, gib_hour=0.01, gpu_hour=1.0)
BACKWARD = [Frame("_engine_run_backward", "torch/autograd/graph.py"), Frame("<module>", "train.py")]
GENERATOR = [Frame("samples", "train.py"), Frame("f", "tensorflow/python/ops/script_ops.py")]
FUNCTION = [Frame("quick_execute", "tensorflow/python/eager/execute.py")]


def asked(count=1, **resources):
    amounts = quantities(resources)
    return Asked(amounts, amounts, {}, count)


def training(uses=None, **more):
    uses = {"master-0": Use(600, 4.0, 15 * 2**30), **(uses or {})}
    roles = {name.partition("-")[0] for name in uses}
    of_roles = {role: asked(cpu="4.5", memory="17Gi") for role in roles}
    return Measured(**{"replicas": uses, "asked": of_roles, "idle": 0.5} | more)


def advice(measured, prices=None):
    return [str(suggestion) for suggestion in suggestions(measured, prices)]


def looks(**kinds):
    return Use(60, 4.0, 15 * 2**30, Counter(kinds))


def test_of_a_job_that_uses_what_it_has_nothing_is_said():
    assert advice(training()) == []


def test_processors_that_are_not_used_are_given_back_and_what_that_saves_is_told():
    used = Use(600, 0.9, 3 * 2**30)
    of_one = training({"master-0": used}, asked={"master": asked(cpu="4", memory="16Gi")})
    assert advice(of_one, PRICES) == [
        "master uses 0.9 of 4 CPUs: cpu: 1.5 (saves 0.12 EUR an hour)",
        "master had at most 3Gi of its 16Gi of memory: memory: 4Gi (saves 0.12 EUR an hour)",
    ]
    both = replace(
        of_one,
        replicas={"master-0": used, "worker-0": used},
        asked={"master": asked(cpu="4"), "worker": asked(3, cpu="4")},
        place="job.",
    )
    assert advice(both, PRICES) == [
        "each replica uses 0.9 of 4 CPUs: job.cpu: 1.5 (saves 0.50 EUR an hour)"
    ]
    different = replace(both, asked=both.asked | {"master": asked(cpu="2")}, place="")
    assert advice(different) == ["each worker uses 0.9 of 4 CPUs: replicas.worker.cpu: 1.5"]


def test_what_a_role_sets_itself_is_changed_there():
    workers = {"worker": {"count": 2, "cpu": "4"}}
    job = TrainingJob.create(image="i", entrypoint="t.py", cpu="4", replicas=workers)
    about = at_end.about(job, render(job), place="job.")
    used = {"master-0": Use(600, 0.9), "worker-0": Use(600, 0.9)}
    assert advice(replace(about, replicas=used)) == [
        "master uses 0.9 of 4 CPUs: job.replicas.master.cpu: 1.5",
        "each worker uses 0.9 of 4 CPUs: job.replicas.worker.cpu: 1.5",
    ]


@pytest.mark.parametrize("why", [{"idle": 0.02}, {"least": 601.0}])
def test_nothing_is_given_back_where_replicas_lacked_processors_or_time(why):
    used = {"master-0": Use(600, 0.9)}
    assert advice(training(used, asked={"master": asked(cpu="4")}, **why)) == []


def test_what_a_cluster_would_not_give_is_asked_for():
    used = {"master-0": Use(600, 7.8, 4.1 * 2**30)}
    assert advice(training(used, asked={"master": asked(cpu="2", memory="4Gi")}), PRICES) == [
        "master uses 7.8 CPUs, and may use 2, which a cluster keeps it to: cpu: 9 "
        "(costs 0.35 EUR more an hour)",
        "master had 4.1Gi of memory, and is killed beyond 4Gi: memory: 5Gi "
        "(costs 0.010 EUR more an hour)",
    ]


def test_processors_that_a_machine_lacks_are_neither_asked_for_nor_given_back():
    two = {"master-0": Use(600, 1.9), "worker-0": Use(600, 1.9)}
    roles = {name: asked(cpu="1.5") for name in ("master", "worker")}
    busy = training(two, asked=roles)
    assert advice(replace(busy, cores=16)) == [
        "each replica uses 1.9 CPUs, and may use 1.5, which a cluster keeps it to: cpu: 2.5"
    ]
    assert advice(replace(busy, cores=4))[0].endswith(": cpu: 2")
    assert advice(replace(busy, cores=3)) == []
    idle = training({"master-0": Use(600, 1.0)}, asked={"master": asked(cpu="8")})
    assert advice(replace(idle, cores=8)) == ["master uses 1 of 8 CPUs: cpu: 1.5"]
    assert advice(replace(idle, cores=4)) == []


@pytest.mark.parametrize("text", ["", "#!/bin/sh\necho Permission Denied >&2; exit 1\n"])
def test_where_nobody_can_look_it_is_said_before_anything_is_made(tmp_path, monkeypatch, text):
    spy = tmp_path / "py-spy"
    spy.write_text(text)
    spy.chmod(0o755)
    monkeypatch.setattr(stacks, "spy", lambda: str(spy) if text else None)
    monkeypatch.setenv("TRIREME_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text("entrypoint: train.py\n")
    why = "Permission Denied.* needs kernel.yama" if text else "is not installed"
    with pytest.raises(InputError, match=f"nothing can be measured: py-spy.* {why}"):
        advise(tmp_path / "job.yaml", 60.0, None, None, "")
    assert not (tmp_path / "home").exists()


def test_a_replica_that_trains_and_hardly_works_waits_for_something():
    used = {"master-0": Use(600, 0.1)}
    (said,) = advice(training(used, asked={"master": asked(cpu="1")}))
    assert said.startswith("master-0 used a processor 10% of its time") and "advise" in said
    launcher = {"master": replace(asked(cpu="1"), trains=False)}
    assert advice(training(used, asked=launcher)) == []
    assert advice(training(used, asked={"master": asked(cpu="1")}, has_gpu=True)) == []


def test_who_waits_least_tells_whether_it_is_the_network():
    slow, fast = looks(compute=95, communication=5), looks(compute=40, communication=60)
    (said,) = advice(training({"master-0": slow, "worker-0": fast}, peers=2))
    assert said.startswith("worker-0 waits for the others 60% of its time, master-0 5%")
    (said,) = advice(training({"master-0": fast, "worker-0": fast}, peers=2))
    assert said.startswith("communication takes 60%") and "gradients of 14 batches" in said
    (said,) = advice(training({"master-0": fast, "worker-0": fast}, peers=2, by_gradients=False))
    assert said.startswith("communication takes 60%") and "fewer replicas" in said


@pytest.mark.parametrize(
    ("file", "is_other"),
    [
        ("torch/distributed/tensor/parallel/style.py", True),
        ("xgboost/core.py", True),
        ("torch/distributed/tensor/_dispatch.py", False),  # of fully_shard, too
        ("torch/nn/parallel/distributed.py", False),
    ],
)
def test_what_is_exchanged_is_told_by_who_does(file, is_other):
    assert frames.exchanges_no_gradients([Frame("f", file), *BACKWARD]) == is_other


@pytest.mark.parametrize(
    ("loaders", "work", "said"),
    [
        (0, 0.0, "and loads it itself: DataLoader(..., num_workers=2)"),
        (4, 1.0, "and its 4 loaders always work: DataLoader(..., num_workers=6)"),
        (4, 0.1, "its 4 loaders have nothing to do 90% of theirs: more of them do not help"),
    ],
)
def test_loaders_are_added_only_where_they_work(loaders, work, said):
    use = replace(looks(data=60, compute=40), loaders=loaders, loaders_work=work)
    (first,) = advice(training({"master-0": use}))
    assert said in first


def test_few_looks_tell_nothing():
    assert advice(training({"master-0": looks(data=20, compute=4)})) == []


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (Gpu("0: NVIDIA GB200", 0.95, 0.9, 10.0), "bfloat16"),
        (Gpu("0: NVIDIA A10G", 0.95, 0.9, 8.6), "bfloat16"),
        (Gpu("0: Quadro RTX 6000", 0.95, 0.9, 7.5), ""),
        (Gpu("0: one whose driver does not tell", 0.95, 0.9), ""),
        (Gpu("0: NVIDIA H100 80GB HBM3", 0.3, 0.2, 9.0), "a larger batch"),
        (Gpu("0: NVIDIA H100 80GB HBM3", 0.3, 0.9, 9.0), ""),
    ],
)
def test_of_gpus_their_use_and_what_they_can_decide(gpu, said):
    measured = training({"master-0": looks(compute=100)}, gpus=[gpu], has_gpu=True)
    assert [said] == [said for line in advice(measured) if said] if said else not advice(measured)
    assert not any("bfloat16" in line for line in advice(replace(measured, args=["--bf16"])))


def test_what_keeps_its_gpus_busy_is_bound_by_them():
    # The program waits for them where it reads a loss: its stack is of nothing else.
    waits = training({"master-0": looks(rest=85, compute=15)}, has_gpu=True)
    busy = replace(waits, gpus=[Gpu("0: NVIDIA H200", 0.9, 0.34, 9.0)])
    assert words.verdict(busy).startswith("bound by its GPUs, busy 90% of the time")
    one_idle = replace(busy, gpus=[*busy.gpus, Gpu("1: NVIDIA H200", 0.2, 0.34, 9.0)])
    assert words.verdict(one_idle) == words.verdict(waits) == "it is bound by nothing in particular"


def test_memory_that_is_used_up_in_the_optimizer_is_divided_unless_it_is_already():
    lines = 'File "/x/torch/optim/adam.py", line 1\ntorch.OutOfMemoryError: CUDA out of memory.'
    (said,) = advice(training(peers=8, failure=lines))
    assert "each of the 8 processes" in said and "fully_shard" in said
    other = ["memory was used up in the optimizer: more memory, or an optimizer with less state"]
    assert advice(training(peers=8, failure=lines, args=["--strategy", "fsdp"])) == other
    keras = lines.replace("torch/optim", "keras/src/optimizers")
    assert advice(training(peers=8, failure=keras)) == other
    (said,) = advice(training(failure="CUDA out of memory."))
    assert "a smaller batch" in said


@pytest.mark.parametrize(
    ("stack", "runs", "threads", "about", "kind"),
    [
        (BACKWARD, True, "S", {}, "compute"),
        (BACKWARD, False, "S", {}, "communication"),
        (BACKWARD, False, "R", {}, "compute"),  # OpenMP's
        (BACKWARD, False, "S", {"has_peers": False}, "compute"),
        (BACKWARD, False, "S", {"has_gpu": True}, "compute"),
        (FUNCTION, False, "S", {"others": [(7, GENERATOR)]}, "data"),
        (FUNCTION, False, "R", {"others": [(7, GENERATOR)]}, "data"),  # of the generator itself
        (FUNCTION, False, "R", {}, "compute"),
        ([Frame("all_reduce", "torch/distributed/distributed_c10d.py")], False, "S", {},
         "communication"),
        ([Frame("<module>", "train.py")], True, "R", {}, "rest"),
        ([Frame("__init__", "torch/nn/modules/linear.py")], True, "S", {}, "starting"),
    ],
)  # fmt: skip
def test_a_main_thread_that_sleeps_in_a_step_waits_for_what_no_other_thread_does(
    stack, runs, threads, about, kind
):
    others = about.pop("others", [])
    native = [Thread(7, "python", threads == "R"), Thread(8, "gloo_tcp_loop", True)]
    about = {"has_peers": True, "has_gpu": False} | about
    assert frames.kind(stack, runs, others, native, **about) == kind


def test_a_replica_that_is_kept_to_less_than_a_processor_does_not_wait():
    def said(limit):
        asks = {"worker": asked(cpu=limit)}
        return advice(training(asked=asks, replicas={"worker-0": Use(90.0, 0.3)}))

    assert said("300m") == ["worker uses 0.3 CPUs, and may use 0.3: cpu: 0.5"]
    assert "waited for something" in said("1")[0]


def test_at_its_end_a_job_is_advised_by_what_was_counted(job, replicas, tmp_path):
    sleeping = replicas(["python3", "-c", "import time; time.sleep(2)"])
    about = training(asked={"master": asked(cpu="4")}, replicas={}, least=1.0)
    clock = iter([(0.0, 0.0), (50.0, 100.0)])
    found = []
    observers = [Timeline(tmp_path / NAME), Advice(about, tmp_path, lambda: next(clock))]
    runner.run(job("PyTorchJob", Master=sleeping), tmp_path, Observers(observers, found.append))
    (kept,) = found
    first, second = kept.tags["advice"].split("\n")
    assert kept.words == [f"advice: {first}", f"advice: {second}"]
    assert first.startswith("master-0 used a processor ") and "'trireme job advise'" in first
    assert second.endswith("of 4 CPUs: cpu: 0.5")


def test_a_fault_of_who_looks_is_told(monkeypatch):
    def fail(pids):
        raise KeyError("a fault of ours")

    monkeypatch.setattr(usage, "cpu_seconds", fail)
    looking = Looking({}, 60.0, peers=1)
    looking.start()
    looking.join(30)
    assert looking.done.is_set() and looking.problem == "KeyError: 'a fault of ours'"


def test_it_is_said_how_often_to_save_where_that_saves_time():
    known = {"seconds": {"training": 3000, "checkpoint": 300}, "stops": 100, "gaps": 99}
    often = Ledger(**known, between=33 * 99, ran=3600, interruptions=1, replica_seconds=3600)
    said = save_as_often(training(ledger=often))
    assert said.why == "saving every 30 s loses 9.5% of the time"
    assert said.change.startswith("save every 2 min 2")
    near = replace(often, between=150 * 99)
    assert save_as_often(training(ledger=near)) is None
    assert save_as_often(training(ledger=replace(often, interruptions=0))) is None
    assert save_as_often(training()) is None
