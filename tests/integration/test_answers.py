"""``-o json``, as CI uses it: what is asked of a run, of jobs and of a mistake, with jq."""

import json
import shutil
import subprocess

import jsonschema
import pytest

from trireme.answers.schema import schema

pytestmark = pytest.mark.slow

FAILS = """
print("epoch 1/3 loss 0.5", flush=True)
raise ValueError("label 12 is outside of 0..9")
"""


def answer(done, status=0):
    """Returns the answer of a command, as its schema has it."""
    assert done.returncode == status, done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, schema())
    return told


def problem(done, status):
    """Returns the error of a command, which is the last line on stderr, where stdout is empty."""
    assert (done.returncode, done.stdout) == (status, "")
    told = json.loads(done.stderr.splitlines()[-1])
    jsonschema.validate(told, schema())
    return told


@pytest.fixture
def failed(trireme):
    """Runs a program that fails, and returns the name of its run."""
    (trireme.home / "train.py").write_text(FAILS)
    assert trireme.run("run", "train.py").returncode == 1
    return trireme


@pytest.mark.skipif(not shutil.which("jq"), reason="there is no jq")
def test_the_one_liners_of_the_docs(failed):
    def jq(text, filter_):
        return subprocess.run(
            ["jq", "-r", filter_], input=text, capture_output=True, text=True, check=True
        ).stdout

    runs = failed.run("list", "-o", "json").stdout
    name = jq(runs, '.runs | map(select(.state == "FAILED")) | .[0].name').strip()
    status = failed.run("status", name, "-o", "json").stdout
    assert jq(status, '.steps[] | select(.state == "FAILED") | .name') == "train\n"
    result, resume = jq(status, ".result,.next.Resume").splitlines()
    assert result.endswith("ValueError: label 12 is outside of 0..9")
    assert resume == f"trireme resume {name}"
    lines = failed.run("logs", name, "-o", "json").stdout
    first = jq(lines, 'select(.replica == "master-0").line').splitlines()[0]
    assert first == "epoch 1/3 loss 0.5"


def test_a_run_that_failed_is_told_in_json_and_in_the_same_words_as_text(failed):
    listed = answer(failed.run("list", "-o", "json"))["runs"]
    told = answer(failed.run("status", "-o", "json"))
    assert [run["name"] for run in listed] == [told["name"]]
    assert (told["state"], told["has_ended"]) == ("FAILED", True)
    step = next(step for step in told["steps"] if step["name"] == "train")
    assert step["result"].endswith("ValueError: label 12 is outside of 0..9")
    text = failed.run("status").stdout
    assert all(line in text for line in [step["result"], *told["last_lines"]])
    lines = failed.run("logs", "-o", "json", "--step", "train").stdout.splitlines()
    every = [json.loads(line) for line in lines]
    assert {"step": "train", "replica": "master-0", "line": "epoch 1/3 loss 0.5"} in every
    for line in every:
        jsonschema.validate(line, schema())


def test_jobs_of_this_machine(trireme):
    (trireme.home / "train.py").write_text(FAILS)
    words = ("job", "submit", "--local", "--name", "one", "--entrypoint", "train.py")
    assert trireme.run(*words).returncode == 1
    (job,) = answer(trireme.run("job", "list", "--local", "-o", "json"))["jobs"]
    told = answer(trireme.run("job", "status", "one", "--local", "-o", "json"))
    assert job["name"] == told["name"] == "one" and told["has_ended"]
    assert job["reason"] == told["reason"] != ""
    assert [each["name"] for each in told["replicas"]] == ["master-0"]
    lines = trireme.run("job", "logs", "one", "--local", "-o", "json").stdout.splitlines()
    assert json.loads(lines[0]) == {"replica": "master-0", "line": "epoch 1/3 loss 0.5"}
    ended = problem(trireme.run("job", "top", "one", "--local", "-o", "json"), 2)
    assert ended["sentence"] == "job 'one' does not run: failed"


@pytest.mark.parametrize(
    "words, kind",
    [
        (["doctor"], "diagnosis"),
        (["models"], "model-list"),
        (["pipelines"], "pipeline-list"),
        (["plan", "pytorch-training"], "plan"),
        (["strategy", "1e8", "--device", "h100"], "strategy-list"),
        (["list"], "run-list"),
        (["prune", "--dry-run"], "pruned-list"),
        (["config", "list"], "saved-list"),
    ],
)
def test_whatever_shows_something_has_an_answer(trireme, words, kind):
    assert answer(trireme.run(*words, "-o", "json"))["kind"] == kind


def test_a_run_shows_itself_when_it_has_started_and_when_it_has_failed(trireme):
    (trireme.home / "train.py").write_text(FAILS)
    done = trireme.run("run", "train.py", "-o", "json")
    told = answer(done, 1)
    assert (told["kind"], told["state"]) == ("run-status", "FAILED")
    assert json.loads(done.stderr.splitlines()[-1])["kind"] == "error"
    started = answer(trireme.run("run", "train.py", "--no-wait", "-o", "json"))
    assert started["state"] == "running"
    ended = trireme.run("status", started["name"], "--for", "finished", "-o", "json")
    assert answer(ended, 1)["state"] == "FAILED"


@pytest.mark.parametrize(
    "words, code, field",
    [
        (["status", "nobody", "-o", "json"], "not-found", ""),
        (["status", "-o", "json", "--bogus"], "invalid-input", ""),
        (["list", "--target", "moon", "-o", "json"], "invalid-input", "--target"),
        (
            ["plan", "pytorch-training", "-p", "workers=many", "-o", "json"],
            "invalid-input",
            "workers",
        ),
    ],
)
def test_a_mistake_is_one_line_of_json_on_stderr(trireme, words, code, field):
    told = problem(trireme.run(*words), 2)
    assert told["code"] == code and told["exit_status"] == 2
    assert told["field"] == field
