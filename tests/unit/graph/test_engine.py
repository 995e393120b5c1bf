"""What runs here, how often, with which inputs, and how it ends: with kfp's own executor."""

import threading
from collections import Counter

import odd_pipelines
import pytest
import running_here

from trireme.components.errors import InputError, TriremeError
from trireme.graph import reading, writing

pytestmark = pytest.mark.slow


@pytest.fixture
def ran(tmp_path):
    """Runs one of the pipelines, as it reads from the YAML that is written of it."""

    def run(pipeline, **arguments):
        graph = reading.of_yaml(writing.text(reading.of_pipeline(pipeline)))
        return running_here.run(graph, tmp_path, **arguments)

    return run


def test_an_item_in_a_text_in_an_exit_handler(ran):
    done = ran(odd_pipelines.item_in_text)
    assert (done.error, sorted(done.said["say"])) == (None, ["item A", "item B"])
    assert done.said["last"] == ["done SUCCEEDED exit-handler-1 None"]


def test_fields_and_items_of_fields_in_texts(ran):
    done = ran(odd_pipelines.field_in_text)
    assert done.error is None
    assert (done.said["say"], sorted(done.said["say-2"])) == (["of a"], ["a: 1", "a: 2"])


def test_a_loop_over_the_item_of_another(ran):
    done = ran(odd_pipelines.nested_items)
    assert done.error is None
    assert sorted(done.said["say"]) == ["cell a", "cell b", "cell c"]
    assert sorted(done.said["cell-of"]) == ["a of ['a', 'b']", "b of ['a', 'b']", "c of ['c']"]
    assert {"say-0-0", "say-0-1", "say-1-0"} <= {*done.steps}


def test_what_is_outside_of_groups_in_texts(ran):
    done = ran(odd_pipelines.outside_in_text)
    assert (done.error, sorted(done.said["say"])) == (None, ["x w", "y w"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {},
            [
                *("quote", "same", "differs", "real > 0", "real >= 1", "whole >= limit"),
                *("whole is text 2", "off and small"),
            ],
        ),
        (
            {"word": 'a\\b"c\nd', "limit": 2.5, "n": 1, "on": True},
            ["escapes", "same", "differs", "real > 0", "real >= 1", "whole < limit", "on"],
        ),
        (
            {"word": "' or ''=='", "other": "' or ''=='", "n": 6},
            ["same", "real > 0", "real >= 1", "whole >= limit", "n > 5"],
        ),
    ],
)
def test_conditions_of_every_type(ran, given, said):
    done = ran(odd_pipelines.comparisons, **given)
    assert done.error is None
    every = [line for task, lines in done.said.items() if task.startswith("say-") for line in lines]
    assert sorted(every) == sorted(said)


def test_a_condition_on_a_field(ran):
    done = ran(odd_pipelines.fields)
    assert (done.error, done.said) == (None, {"say": ["is a"], "show": ["'is not a'"]})
    assert done.steps == ["say-0", "show-1"]


@pytest.mark.parametrize("side", ["heads", "tails", "edge"])
def test_one_of_values_and_of_artifacts(ran, side):
    done = ran(odd_pipelines.one_of, side=side)
    assert (done.error, done.said["show"]) == (None, [f"'{side}'"])
    assert done.said["read"] == [f"{side.upper()} {side}"]
    assert len(done.calls) == 4


def test_pipelines_as_steps(ran):
    done = ran(odd_pipelines.of_pipelines)
    assert done.error is None
    said = [line for task, lines in done.said.items() if "show" in task for line in lines]
    assert sorted(said) == ["'a'", "'b'", "'h'", "'t'"]


def test_groups_that_kfp_confuses_are_refused_and_run_as_parts(ran):
    with pytest.raises(InputError, match=r"^task condition-2: kfp's compiler has put its tasks"):
        reading.of_pipeline(odd_pipelines.lost_tasks)
    done = ran(odd_pipelines.parts)
    assert done.error is None
    assert sorted([*done.said["show"], *done.said["show-2"]]) == ["'heads'", "'t'"]


def test_a_turn_that_fails_leaves_the_others_and_the_exit_handler(ran):
    done = ran(odd_pipelines.failing)
    assert str(done.error) == "ValueError: 13 is bad"
    assert sorted(done.said["number"]) == ["1", "3"]
    assert done.said["last"] == ["done FAILED exit-handler-1 ValueError: 13 is bad"]
    assert "say" not in done.said


def test_an_ignored_failure_fails_the_run_and_what_follows_has_its_default(ran):
    done = ran(odd_pipelines.ignoring)
    assert str(done.error) == "ValueError: 13 is bad"
    assert done.said["anyway"] == ["7"]


@pytest.mark.parametrize(("times", "ends_well"), [(2, True), (9, False)])
def test_a_step_is_tried_again(ran, tmp_path, times, ends_well):
    done = ran(odd_pipelines.retried, file=str(tmp_path / "tries"), times=times)
    assert (done.error is None) == ends_well
    assert done.said["flaky"] == [f"try {n + 1}" for n in range(3 if ends_well else 4)]
    assert ("say" in done.said) == ends_well


def test_what_comes_together_is_in_the_order_of_the_items(ran):
    done = ran(odd_pipelines.collected)
    assert done.error is None
    assert done.said["read-all"] == ["['B', 'A', 'C'] ['b', 'a', 'c']"]
    assert sorted(done.said["read"]) == ["A a", "B b", "C c"]


def test_values_of_every_type(ran):
    done = ran(odd_pipelines.every_type)
    assert done.error is None
    table = '{"a": "{{x}}", "b": [1, 2.5, true]}'
    assert done.said["say-kinds"] == [
        f"9007199254740991 1e-300 True 2.5|true|2|2|1e-300|9007199254740991|{table}"
    ]
    assert done.said["show"] == [repr("Answer in one word.\nBe polite: 'yes'.")]
    assert (done.said["maybe"], done.said["show-2"]) == (["given None"], ["'abab'"])


def test_numbers_that_json_has_not(ran):
    done = ran(odd_pipelines.infinite)
    (after,) = [call for call in done.calls if call.task == "share"]
    assert (done.error, after.values) == (None, {"x": float("inf")})


def test_parameters_that_are_left_out(ran):
    done = ran(odd_pipelines.left_out)
    assert (done.error, done.said["maybe"], done.calls[0].values) == (None, ["None None"], {})
    assert ran(odd_pipelines.left_out, n=3).said["maybe"] == ["None 3"]


def test_an_imported_artifact(ran):
    assert ran(odd_pipelines.imported).said["uri-of"] == ["/data/model elsewhere"]
    assert ran(odd_pipelines.imported, uri="s3://b/k").said["uri-of"] == ["s3://b/k elsewhere"]


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
        if "inner" in str(call.directory) or call.task != "leave":
            return {"Output": "x", "out": [{"uri": "x", "metadata": {}}]}
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
