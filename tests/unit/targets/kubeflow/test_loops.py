"""Steps in loops: status, run --target kfp and the names of logs, turn by turn."""

import io

import pytest
from kfp import dsl

from trireme.errors import StepFailed
from trireme.graph import reading
from trireme.graph.model import PathTask
from trireme.kubernetes.resources import NODE
from trireme.kubernetes.step_pods import step_of
from trireme.pipeline.pipeline import Pipeline
from trireme.targets.kubeflow import logs, nodes
from trireme.targets.kubeflow.target import Kubeflow
from trireme.terminal.console import Console


@dsl.component(base_image="example.org/base:1", install_kfp_package=False)
def split(experiment: str) -> list:
    return [experiment]


@dsl.component(base_image="example.org/base:1", install_kfp_package=False)
def train(item: str) -> bool:
    return bool(item)


@dsl.component(base_image="example.org/base:1", install_kfp_package=False)
def check(item: str):
    print(item)


@dsl.component(base_image="example.org/base:1", install_kfp_package=False)
def best():
    print()


@dsl.pipeline(name="loops")
def loops(experiment: str = ""):
    items = split(experiment=experiment)
    with dsl.ParallelFor(items.output, name="all") as item:
        trained = train(item=item)
        with (
            dsl.If(trained.output == True, name="good"),  # noqa: E712
            dsl.ParallelFor(["a", "b"], name="each") as one,
        ):
            check(item=one)
    best().after(trained)


@dsl.pipeline(name="inner")
def inner():
    train(item="x")
    with dsl.ParallelFor(["a"], name="each") as one:
        check(item=one)


@dsl.pipeline(name="twice")
def twice():
    inner()
    inner()
    best()


OUTER = "for-loop-1.iteration-iterations({0}:{0}).iteration-item"
INNER = "condition-2.for-loop-4.iteration-iterations({0}:{0}).iteration-item"


def train_of(turn):
    """Where a turn of a step is below the root of the workflow."""
    return f"{OUTER.format(turn)}.train"


def check_of(outer, inner):
    return f"{OUTER.format(outer)}.{INNER.format(inner)}.check"


HALF = {"split": "SUCCEEDED", train_of(0): "SUCCEEDED", check_of(0, 1): "RUNNING"}
STATES = [
    ("RUNNING", {"split": "SUCCEEDED"}),
    ("RUNNING", {"split": "SUCCEEDED", train_of(2): "RUNNING", train_of(0): "RUNNING"}),
    ("RUNNING", HALF | {train_of(10): "RUNNING", train_of(2): "FAILED"}),
    (
        "FAILED",
        HALF
        | {check_of(0, 1): "SUCCEEDED", check_of(0, 0): "SUCCEEDED"}
        | {train_of(10): "SUCCEEDED", train_of(2): "FAILED"},
    ),
]


@pytest.fixture(params=[False, True], ids=["2.16", "2.17"])
def place(kubeflow, untracked, request):
    kubeflow.tries = request.param
    return Kubeflow(kubeflow.url)


def run(place, stream, *, wait, of=loops):
    pipeline = Pipeline("loops", reading.of_pipeline(of))
    arguments = pipeline.complete({}, set())
    return place.run(pipeline, arguments, pipeline.name, Console(stream), wait=wait)


def test_the_way_to_each_step_is_known():
    graph = reading.of_pipeline(loops)
    assert graph.step_names == ["split", "train", "check", "best"]
    marked = {
        name: [task.name for task in path if task.is_loop] for name, path in graph.paths.items()
    }
    assert marked["check"] == ["for-loop-1", "for-loop-4"]
    assert (marked["train"], marked["best"]) == (["for-loop-1"], [])


def test_an_id_is_made_as_argo_makes_it():
    # Of a run in Kubeflow Pipelines' repository, frontend/mock-backend/data/v1/runtime.
    assert nodes._number("coinflip-recursive-q7dqb[0]") == "1787723858"


def test_a_run_is_followed_turn_by_turn(kubeflow, place):
    kubeflow.states = STATES
    shown = io.StringIO()
    with pytest.raises(StepFailed, match=r"failed at train-002$"):
        run(place, shown, wait=True)
    lines = [line.split(" in ")[0].split() for line in shown.getvalue().splitlines()]
    said = [line for line in lines if line[-1:] in (["started"], ["finished"], ["failed"])]
    assert said[1:] == [
        ["split", "started"],
        ["split", "finished"],
        ["train-000", "started"],
        ["train-002", "started"],
        ["train-000", "finished"],
        ["train-002", "failed"],
        ["train-010", "started"],
        ["check-000-001", "started"],
        ["train-010", "finished"],
        ["check-000-000", "started"],
        ["check-000-000", "finished"],
        ["check-000-001", "finished"],
    ]


def test_status_shows_each_turn(trireme, kubeflow, place):
    kubeflow.states = STATES[-2:]
    run(place, io.StringIO(), wait=False)
    asked = ("status", kubeflow.only_run()["run_id"], "--target", "kfp")
    assert [line.split()[:2] for line in trireme(*asked)[1].splitlines()[2:6]] == [
        ["split", "FINISHED"],
        ["train-000", "FINISHED"],
        ["train-002", "FAILED"],
        ["train-010", "running"],
    ]


def test_turns_that_cannot_be_told_apart_are_shown_as_one(trireme, kubeflow, place):
    kubeflow.states = [("RUNNING", {"elsewhere.train": "RUNNING", "other.train": "FAILED"})]
    run(place, io.StringIO(), wait=False)
    asked = ("status", kubeflow.only_run()["run_id"], "--target", "kfp")
    assert trireme(*asked)[1].splitlines()[2].split()[:2] == ["train", "FAILED"]


CHECKS = "for-loop-2.iteration-iterations(0:0).iteration-item.check"


def test_the_steps_of_a_pipeline_that_is_used_twice_are_told_apart(trireme, kubeflow, place):
    state = {"inner.train": "SUCCEEDED", "inner-2.train": "FAILED", "best": "SUCCEEDED"}
    kubeflow.states = [("FAILED", state | {f"inner-2.{CHECKS}": "RUNNING"})] * 2
    run(place, io.StringIO(), wait=False, of=twice)
    asked = ("status", kubeflow.only_run()["run_id"], "--target", "kfp")
    assert sorted(line.split()[:2] for line in trireme(*asked)[1].splitlines()[2:6]) == [
        ["best", "FINISHED"],
        ["inner-2-for-loop-2-check-000", "running"],
        ["inner-2-train", "FAILED"],
        ["inner-train", "FINISHED"],
    ]


def a_pod(node):
    return {"metadata": {"annotations": {NODE: node}}}


def test_so_are_their_pods():
    nodes = {
        "flow(0).root(0).inner(0).train(0).executor(0)": "inner-train",
        "flow.root.inner-2.train.executor": "inner-2-train",
        f"flow.root.inner-2.{CHECKS}.executor(1)": "inner-2-for-loop-2-check-000",
        "flow.root.best.executor": "best",
        "flow.root.another.train.executor": "",
    }
    drivers = {
        "flow(0).root(0).inner-2(0).train-driver(0)": "inner-2-train",
        "flow.root.inner-driver": "inner",
        "flow.root-driver": "root",
    }
    paths = reading.of_pipeline(twice).paths
    found = [a_pod(node) for node in [*nodes, *drivers]]
    assert [name for name, _ in logs.of_steps(found, paths)] == [*filter(None, nodes.values())]
    assert [name for name, _ in logs.drivers(found, paths)] == [*drivers.values()]


def test_a_step_may_be_called_as_a_driver_is():
    paths = {"my-driver": (PathTask("my-driver", False),)}
    (named,) = logs.of_steps([a_pod("flow.root.my-driver.executor")], paths)
    assert named[0] == "my-driver"


@pytest.mark.parametrize(
    ("node", "step"),
    [
        ("flow.root.checkout.executor", "checkout"),
        ("flow.root.checkout.executor(1)", "checkout"),
        (f"flow.root.{train_of(3)}.executor", "train-003"),
        (f"flow.root.{check_of(3, 0)}.executor(0)", "check-003-000"),
        ("flow(0).root(0).checkout(0).executor(1)", "checkout"),
        (
            "flow(0).root(0).for-loop-1(0).iteration-iterations(3:3)(0).iteration-item(0).train(1)"
            ".executor(0)",
            "train-003",
        ),
        ("flow(0).root(0).train-driver(0)", ""),
        (f"flow.root.{train_of(3)}-driver", ""),
        ("flow.root", ""),
    ],
)
def test_a_pods_node_tells_the_turn(node, step):
    assert step_of({"metadata": {"annotations": {NODE: node}}}) == step
