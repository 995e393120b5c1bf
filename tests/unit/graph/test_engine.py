"""What the engine here does that no engine is alike in, and what it does at once.

What comes of each construct is in test_constructs_here.py.
"""

import copy
import dataclasses
import threading
import time
from collections import Counter

import odd_pipelines
import pytest
import running_here
from kfp import dsl

from trireme.errors import InputError, TriremeError
from trireme.graph import reading, writing
from trireme.graph.model import Retry
from trireme.targets.local import commands

pytestmark = pytest.mark.slow


@pytest.fixture
def ran(tmp_path):
    """Runs one of the pipelines, as it reads from the YAML that is written of it."""

    def run(pipeline, **arguments):
        graph = reading.of_yaml(writing.text(reading.of_pipeline(pipeline)))
        return running_here.run(graph, tmp_path, **arguments)

    return run


def test_how_the_rest_has_ended_is_told(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.failing)

    def play(call):
        if call.values.get("n") == 13:
            raise TriremeError("13 is bad")
        return {"Output": 1}

    done = running_here.played(graph, tmp_path, play)
    (last,) = [call for call in done.calls if call.task == "last"]
    assert last.values["status"] == {
        "state": "FAILED",
        "error": {"message": "13 is bad"},
        "pipelineJobResourceName": "a-run",
        "pipelineTaskName": "exit-handler-1",
    }


def test_turns_of_loops_are_counted(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.nested_items)
    done = running_here.played(graph, tmp_path, lambda call: {"Output": [["a", "b"], ["c"]]})
    assert {"say-0-0", "say-0-1", "say-1-0"} <= {*done.steps}
    directories = {str(call.directory.relative_to(tmp_path)) for call in done.calls}
    assert len(directories) == len(done.calls) == 7


def test_groups_that_kfp_confuses_are_refused_and_run_as_parts(ran):
    with pytest.raises(InputError, match=r"^task condition-2: kfp's compiler has put its tasks"):
        reading.of_pipeline(odd_pipelines.lost_tasks)
    done = ran(odd_pipelines.parts)
    assert done.error is None
    assert sorted([*done.said["show"], *done.said["show-2"]]) == ["'heads'", "'t'"]


def test_a_step_that_keeps_failing_is_given_up(ran):
    done = ran(odd_pipelines.retried, times=9)
    assert done.error is not None
    assert done.said["flaky"] == [f"try {n}" for n in (1, 2, 3, 4)]
    assert "say" not in done.said


@pytest.mark.parametrize(
    ("retry", "tries"),
    [
        (Retry(2), 3),
        (Retry(9, delay=0.1, factor=2.0, within=0.5), 3),  # 0.1 and 0.2, but no 0.4 s more
    ],
)
def test_pauses_between_tries_grow_and_come_to_an_end(tmp_path, retry, tries):
    graph = reading.of_pipeline(odd_pipelines.ignoring)
    number = dataclasses.replace(graph.root.tasks["number"], retry=retry)
    root = dataclasses.replace(graph.root, tasks={**graph.root.tasks, "number": number})

    def play(call):
        if call.task == "number":
            raise TriremeError("no")

    done = running_here.played(dataclasses.replace(graph, root=root), tmp_path, play)
    assert [call.task for call in done.calls] == ["number"] * tries + ["anyway"]


@pytest.mark.parametrize(("ago", "tries"), [([100, 0], 3), ([100], 1), ([0, 100], 1)])
def test_retries_have_their_time_from_the_begin_of_the_work_on(tmp_path, ago, tries):
    graph = reading.of_pipeline(odd_pipelines.ignoring)
    retry = Retry(2, within=50)
    number = dataclasses.replace(graph.root.tasks["number"], retry=retry)
    root = dataclasses.replace(graph.root, tasks={**graph.root.tasks, "number": number})

    def play(call):
        if call.task == "number":  # what comes before the work has taken a while, or the work has
            call.began[:] = [time.monotonic() - seconds for seconds in ago]
            raise TriremeError("no")

    done = running_here.played(dataclasses.replace(graph, root=root), tmp_path, play)
    assert [call.task for call in done.calls] == ["number"] * tries + ["anyway"]
    over = "no; it is not tried again, as its retries had 50 s, which are over"
    assert str(done.error) == ("no" if tries == 3 else over)


def test_numbers_that_json_has_not(ran):
    done = ran(odd_pipelines.infinite)
    (after,) = [call for call in done.calls if call.task == "share"]
    assert (done.error, after.values) == (None, {"x": float("inf")})


def test_parameters_that_are_left_out(ran):
    done = ran(odd_pipelines.left_out)
    assert (done.error, done.calls[0].values) == (None, {})
    assert ran(odd_pipelines.left_out, n=3).said["maybe"] == ["None 3"]


def test_all_placeholders(ran, tmp_path):
    done = ran(odd_pipelines.placeholders)
    said = [line for task, lines in done.said.items() for line in lines]
    assert done.error is None
    assert sorted(said) == sorted(
        f"'in {text} text'"
        for text in (
            *("a-run", "a-run", "17", "2026-11-28T01:02:03Z", "2026-11-28T01:02:03Z"),
            *("show-4", "17-show-5", tmp_path / "artifacts", tmp_path / "workspace"),
        )
    )


def test_a_condition_without_a_value_fails_the_run(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.comparisons)
    done = running_here.played(
        graph, tmp_path, lambda call: {}, **{"word": "a", "n": 1, "on": True}
    )
    assert "there is no value for it" in str(done.error)


def test_independent_steps_run_at_once_and_as_many_as_may(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.apart)
    both, most, running = threading.Barrier(2), Counter(), Counter()

    def play(call):
        running["now"] += 1
        most["at once"] = max(most["at once"], running["now"])
        if call.task != "say":
            both.wait(timeout=60)
        running["now"] -= 1
        return {"Output": ""}

    done = running_here.played(graph, tmp_path, play)
    assert (done.error, most["at once"]) == (None, 2)
    assert done.calls[-1].task == "say"


def test_a_loop_runs_no_more_turns_at_once_than_it_says(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.collected)
    most, running, lock = Counter(), Counter(), threading.Lock()
    meet = threading.Semaphore(0)

    def play(call):
        if call.task != "leave":
            return {}
        with lock:
            running["now"] += 1
            most["at once"] = max(most["at once"], running["now"])
        meet.acquire(timeout=0.2)
        with lock:
            running["now"] -= 1
        return {"Output": "x", "out": [{"uri": "x", "metadata": {}}]}

    done = running_here.played(graph, tmp_path, play, at_once=8, given=list("abcdef"))
    assert (done.error, most["at once"]) == (None, 2)


def test_after_a_failure_nothing_more_of_a_group_begins(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.apart)

    def play(call):
        if call.task == "say-2":
            raise TriremeError("no")
        return {"Output": ""}

    done = running_here.played(graph, tmp_path, play, at_once=1)
    assert str(done.error) == "no"
    assert done.steps == ["say-2", "say-3", "say-4", "say-5"]


def test_very_many_turns_end(tmp_path):
    graph = reading.of_pipeline(odd_pipelines.fields)
    sites = [{"town": str(n)} for n in range(5_000)]
    done = running_here.played(graph, tmp_path, lambda call: {}, at_once=2, sites=sites)
    assert (done.error, len(done.calls)) == (None, 5_000)


@pytest.mark.parametrize(
    ("sites", "said"),
    [
        ("no", "no list"),
        ([{"city": "a"}], """has no member 'town'"""),
        (["a"], """has no member 'town'"""),
    ],
)
def test_what_cannot_be_known_fails_in_a_sentence(tmp_path, sites, said):
    graph = reading.of_pipeline(odd_pipelines.fields)
    done = running_here.played(graph, tmp_path, lambda call: {}, sites=sites)
    assert said.replace("no list", "is not a list, which a loop goes over") in str(done.error)


def test_kfp_is_not_replaced_by_the_version_that_compiled(tmp_path):
    @dsl.component(base_image="python:3.11", packages_to_install=["six==1.0"])
    def packaged():
        """Says 'kfp==1.0'."""

    @dsl.pipeline(name="packaged")
    def pipeline():
        packaged()

    done = running_here.played(reading.of_pipeline(pipeline), tmp_path, lambda call: {})
    words = commands.command_line(done.calls[0], running_here.place_in(tmp_path), "/a/python")
    (shell,) = [word for word in words if "pip install" in word]
    assert "/a/python -m pip install" in shell and "'kfp'" in shell and "'six==1.0'" in shell
    assert "kfp==" not in shell
    assert any("Says 'kfp==1.0'" in word for word in words)


def test_a_fault_in_a_step_ends_the_run_in_a_sentence(tmp_path):
    def play(call):
        raise KeyError("ours")

    done = running_here.played(reading.of_pipeline(odd_pipelines.left_out), tmp_path, play)
    assert str(done.error) == "step maybe cannot run: KeyError('ours')"


def test_a_loop_of_fewer_than_no_turns_at_once_is_refused():
    document = copy.deepcopy(reading.of_pipeline(odd_pipelines.collected).document)
    for task in document["root"]["dag"]["tasks"].values():
        if "parameterIterator" in task:
            task["iteratorPolicy"] = {"parallelismLimit": -1}
    with pytest.raises(InputError, match=r"^task for-loop-1: its loop runs -1 turns at once$"):
        reading.of_json(document)


def test_steps_are_told_apart_by_as_many_groups_as_needed():
    @dsl.pipeline
    def inner(word: str):
        with dsl.ParallelFor(["p", "q"]):
            odd_pipelines.say(message=word)
        odd_pipelines.show(message=word)

    @dsl.pipeline
    def twice():
        inner(word="1")
        inner(word="2")
        odd_pipelines.flaky(workspace="", times=1)

    assert sorted(reading.of_pipeline(twice).names.values()) == [
        *("flaky", "inner-2-for-loop-2-say", "inner-2-show", "inner-for-loop-2-say", "inner-show")
    ]


def begun(pipeline, tmp_path):
    """Returns what the steps of a pipeline are to say, in the order in which they begin alone."""
    graph = reading.of_pipeline(pipeline)
    done = running_here.played(graph, tmp_path, lambda call: None, at_once=1)
    return [call.values["message"] for call in done.calls]


def test_steps_that_most_have_to_come_after_begin_first(tmp_path):
    @dsl.pipeline
    def inner():
        last = odd_pipelines.say(message="inner")
        odd_pipelines.say(message="after it").after(last)

    @dsl.pipeline
    def uneven():
        for word in "abc":
            odd_pipelines.say(message=word)
        first = inner()
        odd_pipelines.say(message="last").after(first)

    assert begun(uneven, tmp_path) == ["inner", "after it", "a", "b", "c", "last"]


def test_a_step_that_much_comes_after_begins_first_behind_importers_too(tmp_path):
    @dsl.pipeline
    def behind():
        found = dsl.importer(artifact_uri="/x", artifact_class=dsl.Dataset)
        first = odd_pipelines.say(message="long").after(found)
        odd_pipelines.say(message="after it").after(first)
        odd_pipelines.say(message="short")

    assert begun(behind, tmp_path)[0] == "long"
