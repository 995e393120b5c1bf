"""trireme/graph/flattening.py: pipelines of ``finishing`` without an exit handler."""

from collections.abc import Callable
from typing import Any

import odd_pipelines as odd
import pytest
from kfp import dsl

from trireme import WORKSPACE, checkout, dataset, evaluate, finishing
from trireme.graph import reading, writing
from trireme.graph.changing import changed
from trireme.graph.flattening import Flattened, flattened, hand_down
from trireme.graph.graph import KUBERNETES, Graph
from trireme.graph.model import Constant, Group, InputOf, OutputOf
from trireme.pipeline import catalog


def taken_apart(pipeline: Callable[..., Any]) -> Flattened:
    """Returns what is made of a pipeline."""
    made = flattened(reading.of_pipeline(pipeline))
    assert made
    assert writing.text(made.graph)  # which reads as the same again
    return made


def titles(group: Group) -> dict[str, set[str]]:
    """Returns the tasks of a group as a person calls them, each with those that it comes after."""
    called = {name: task.title for name, task in group.tasks.items()}
    return {
        task.title: {called[name] for name in task.after}
        for task in sorted(group.tasks.values(), key=lambda task: task.title)
    }


def group_of(graph: Graph, title: str) -> Group:
    """Returns a group at the top, by what a person calls it."""
    (found,) = (task for task in graph.root.tasks.values() if task.title == title)
    assert isinstance(found.component, Group)
    return found.component


@pytest.mark.parametrize("name", ["pytorch-training", "tensorflow-training", "llm-finetuning"])
def test_the_steps_of_a_pipeline_are_its_own_tasks_and_finish_is_the_last(name: str) -> None:
    made = flattened(catalog.load(name).graph)
    assert made
    assert titles(made.graph.root) == {
        "checkout": set(),
        "dataset": {"checkout"},
        "evaluate": {"checkout", "dataset", "train"},
        "finish": {"good-enough"},
        "good-enough": {"checkout", "dataset", "evaluate", "train"},
        "train": {"checkout", "dataset"},
    }
    assert made.graph.after_failures == set()
    assert made.last[-1].name == "finish"
    steps = ["checkout", "dataset", "train", "evaluate", "export", "finish"]
    assert made.graph.step_names == steps
    group = group_of(made.graph, "good-enough")
    passed = "inputs.parameter_values['pipelinechannel--evaluate-passed'] == true"
    assert group.tasks["export"].condition == passed
    assert {*group.outputs} == {"export-exported", "export-report"}
    (around,) = (task for task in made.graph.root.tasks.values() if task.title == "good-enough")
    assert around.condition == ""


def test_what_a_condition_leaves_out_in_groups_in_groups_is_left_out() -> None:
    made = flattened(catalog.load("retraining").graph)
    assert made
    assert titles(made.graph.root)["finish"] == {"changed", "unchanged"}
    changed, unchanged = (group_of(made.graph, each) for each in ("changed", "unchanged"))
    is_changed = "inputs.parameter_values['pipelinechannel--compare-changed'] =="
    assert changed.tasks["train"].condition == f"{is_changed} true"
    assert changed.tasks["evaluate"].condition == ""
    (inner,) = unchanged.tasks.values()
    to_be_deployed = "inputs.parameter_values['pipelinechannel--deploy'] != ''"
    assert inner.condition == f"({is_changed} false) && ({to_be_deployed})"


def test_the_state_that_finish_is_told_is_that_of_what_has_succeeded() -> None:
    made = flattened(catalog.load("sweep").graph)
    assert made
    finish = made.graph.root.tasks["finish"]
    status = finish.inputs["status"].source
    assert isinstance(status, Constant)
    assert status.value["state"] == "SUCCEEDED"
    assert finish.inputs["webhook_secret"].source == InputOf("webhook_secret")


def test_inputs_and_pods_refer_to_the_parameters_of_the_pipeline() -> None:
    made = flattened(catalog.load("pytorch-training").graph)
    assert made
    url = made.graph.root.tasks["checkout"].inputs["url"].source
    assert url == InputOf("code_url")
    executors = made.graph.platforms[KUBERNETES]["deploymentSpec"]["executors"]
    (code,) = (
        one["secretNameParameter"]
        for one in executors["exec-checkout"]["secretAsVolume"]
        if one["mountPath"].endswith("/code")
    )
    assert code == {"componentInputParameter": "code_secret"}


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def say(message: str, workspace: str = dsl.WORKSPACE_PATH_PLACEHOLDER) -> str:
    """Says something, in the frame of Trireme's steps."""
    from trireme.tracked_step import step

    with step("say", workspace):
        print("SAY", message)
    return message


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def anyway(message: str = "nothing", workspace: str = dsl.WORKSPACE_PATH_PLACEHOLDER):
    """Says it whether what comes before has failed or not."""
    from trireme.tracked_step import step

    with step("anyway", workspace):
        print("SAY", message)


@dsl.pipeline(name="of-a-stranger", pipeline_config=WORKSPACE)
def of_a_stranger(word: str = "w", items: list = ["a"]):  # noqa: B006 - kfp copies it
    """Steps of one's own around ``finishing`` and in it, with a loop, branches, and what cleans."""
    before = say(message=word)
    with finishing("of-a-stranger"):
        code, data = checkout(word), dataset("/data")
        within = say(message=before.output)
        with dsl.ParallelFor(items) as item:
            say(message=f"{item} {before.output}")
        with dsl.If(within.output == "heads"):
            say(message="a")
        with dsl.Else():
            say(message="b")
        said = say(message="c").output
        last = anyway(message=said, workspace=dsl.WORKSPACE_PATH_PLACEHOLDER)
        last.ignore_upstream_failure()
        evaluate("/model", code, data)


def test_a_pipeline_of_anybody_s_is_taken_apart_in_the_same_way() -> None:
    made = taken_apart(of_a_stranger)
    root = made.graph.root
    assert root.tasks["say-2"].inputs["message"].source == OutputOf("say", "Output")
    # What has begun before the handler is waited for by all that is in it.
    assert all("say" in root.tasks[name].after for name in ("checkout", "dataset", "say-6"))
    # A hook cannot be waited for, what it is a hook of can.
    after = {root.tasks[name].title for name in root.tasks["finish"].after}
    assert after == {"evaluate", "say-6", "for-loop-2", "condition-branches-3"}
    assert made.graph.after_failures == {"anyway"}


@dsl.pipeline(name="import-first", pipeline_config=WORKSPACE)
def import_first(on: bool = True):
    """An import, which cannot end its run."""
    with finishing("import-first"):
        checkout()
        with dsl.If(on == True):  # noqa: E712
            dsl.importer(artifact_uri="s3://b/k", artifact_class=dsl.Dataset)


@dsl.pipeline(name="loop-first", pipeline_config=WORKSPACE)
def loop_first(items: list = ["a"], on: bool = True):  # noqa: B006 - kfp copies it
    """A loop in a condition."""
    with finishing("loop-first"):
        checkout()
        with dsl.If(on == True), dsl.ParallelFor(items) as item:  # noqa: E712
            say(message=item)


def test_a_condition_moves_to_a_loop_too() -> None:
    root = taken_apart(loop_first).graph.root
    assert {*root.tasks["finish"].after} == {"checkout", "condition-2"}
    (loop,) = group_of(taken_apart(loop_first).graph, "condition-2").tasks.values()
    assert loop.loop
    assert loop.condition == "inputs.parameter_values['pipelinechannel--on'] == true"
    assert loop.inputs["pipelinechannel--on"].source == InputOf("pipelinechannel--on")


@dsl.pipeline(name="two-handlers", pipeline_config=WORKSPACE)
def two_handlers():
    """Two ends."""
    with finishing("one"):
        say(message="a")
    with finishing("two"):
        say(message="b")


@dsl.pipeline(name="without-the-frame", pipeline_config=WORKSPACE)
def without_the_frame():
    """A step that cannot end its run, as its image need not have Trireme."""
    with finishing("without-the-frame"):
        checkout()
        odd.say(message="a")


@pytest.mark.parametrize(
    "pipeline",
    [import_first, two_handlers, without_the_frame, odd.outside_in_text, odd.failing, odd.apart],
)
def test_what_has_another_form_or_another_last_task_stays_as_it_is(pipeline: Any) -> None:
    graph = reading.of_pipeline(pipeline)
    before = writing.text(graph)
    assert flattened(graph) is None
    assert writing.text(graph) == before


def test_a_parameter_is_handed_down_to_groups_in_groups() -> None:
    made = flattened(catalog.load("retraining").graph)
    assert made
    given = {"componentInputParameter": "webhook_secret"}
    (path,) = (path for path in made.graph.paths.values() if path[-1].name == "deploy")
    found = []
    graph = changed(made.graph, lambda draft: found.append(hand_down(draft, path, "hook", given)))
    assert found == [{"componentInputParameter": "hook"}]
    group: Any = graph.root
    for depth, task in enumerate(path[:-1]):
        wanted = "hook" if depth else "webhook_secret"
        assert group.tasks[task.name].inputs["hook"].source == InputOf(wanted)
        group = group.tasks[task.name].component
    step = {"runtimeValue": {"constant": "its-name"}}
    changed(made.graph, lambda draft: found.append(hand_down(draft, path, "hook", step)))
    assert found[-1] == step
