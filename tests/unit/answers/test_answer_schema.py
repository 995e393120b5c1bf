"""trireme/answers: the schema that is published, and what is written by it."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from trireme.answers import problem, writing
from trireme.answers.answer import Answer, moment
from trireme.answers.comparisons import MeasuredValue
from trireme.answers.runs import ListedRun, RunList
from trireme.answers.schema import ANSWERS, schema
from trireme.cli.app import is_for_a_script
from trireme.errors import InputError, JobFailed, TriremeError
from trireme.kubernetes import errors  # noqa: F401 - which have codes of their own
from trireme.targets import answers

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "errors.md").read_text()
CODES = PAGE.partition("| `code` |")[2].partition("## ")[0]


def test_the_schema_is_golden(golden):
    golden("answers.schema.json", json.dumps(schema(), indent=2) + "\n")


def test_each_answer_has_a_kind_of_its_own():
    kinds = [answer.kind for answer in ANSWERS if issubclass(answer, Answer)]
    assert len({*kinds}) == len(kinds)


def test_the_schema_describes_every_answer_and_refuses_what_is_none():
    described = schema()
    jsonschema.Draft202012Validator.check_schema(described)
    names = {each["$ref"].rpartition("/")[2] for each in described["anyOf"]}
    assert names == {answer.__name__ for answer in ANSWERS}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"kind": "run-list", "version": 1, "target": "local"}, described)


RUNS = RunList(
    target="local",
    runs=[
        ListedRun(
            name="one",
            id="",
            state="FAILED",
            created=moment(1_800_000_000.75),
            seconds=1.5,
            parameters={"lr": "0.1"},
            result="ü\x1b[31m",
        )
    ],
)


def test_json_and_yaml_say_the_same_and_times_are_whole_seconds_in_utc():
    told = json.loads(writing.as_json(RUNS))
    assert told == json.loads(writing.in_a_line(RUNS)) == yaml.safe_load(writing.as_yaml(RUNS))
    assert told["runs"][0]["created"] == "2027-01-15T08:00:00Z"
    assert told["runs"][0]["result"] == "ü\x1b[31m"
    assert "\x1b" not in writing.as_json(RUNS) + writing.as_yaml(RUNS)
    jsonschema.validate(told, schema())


def test_what_is_no_number_is_null():
    measured = MeasuredValue(name="loss", values=[float("nan"), float("inf"), 1.0], best=[])
    assert json.loads(writing.as_json(measured))["values"] == [None, None, 1.0]


@pytest.mark.parametrize(
    "error, field, following",
    [
        (InputError("--target 'moon': must be one of local, kfp, argo"), "--target", []),
        (InputError("workers 0: must be at least 1"), "workers", []),
        (InputError("env.A: is needed; env has B"), "env.A", []),
        (InputError("replicas.worker.cpu 'x': is no amount"), "replicas.worker.cpu", []),
        (InputError("parameter workers: 'many' is not a whole number"), "workers", []),
        (InputError("there is no run 'x'; 'trireme list' lists them"), "", ["trireme list"]),
        (JobFailed("replica worker-0 exited with status 1", "a\nb"), "", []),
    ],
)
def test_a_problem_names_the_field_and_the_command_that_helps(error, field, following):
    told = problem.of(error)
    assert (told.field, told.next) == (field, following)
    assert told.sentence == str(error) and told.exit_status == error.exit_status
    jsonschema.validate(json.loads(writing.in_a_line(told)), schema())


def test_a_problem_has_a_code_and_the_last_lines():
    told = problem.of(JobFailed("it failed", "a\nb"))
    assert (told.code, told.exit_status, told.last_lines) == ("job-failed", 1, ["a", "b"])


@pytest.mark.parametrize(
    "words, expected",
    [
        (["status", "-o", "json"], True),
        (["status", "-oyaml"], True),
        (["status", "--output=json", "--bogus"], True),
        (["status", "--output", "yaml"], True),
        (["report", "-o", "page.html"], False),
        (["status", "json"], False),
        (["job", "exec", "a", "b", "--", "kubectl", "-o", "json"], False),
    ],
)
def test_a_command_line_says_whether_it_is_a_script_that_asks(words, expected):
    assert is_for_a_script(words) is expected


def test_a_line_of_a_replica_is_told_apart_from_its_words():
    told = answers.step_line("train", "[worker-12] loss [a] 0.5")
    assert (told.step, told.replica, told.line) == ("train", "worker-12", "loss [a] 0.5")
    told = answers.step_line("evaluate", "[INFO] accuracy 0.9")
    assert (told.replica, told.line) == ("", "[INFO] accuracy 0.9")


def test_the_page_lists_every_code():
    """Also those of kinds of errors that are loaded late."""
    listed = set(re.findall(r"`([a-z-]+)`", CODES))
    known, kinds = set(), [TriremeError]
    for kind in kinds:  # it grows
        known.add(kind.code)
        kinds += kind.__subclasses__()
    assert listed == known
