"""Retraining: on what has not changed, on what has, on what is worse, and twice at a moment."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.slow


def champion(trireme):
    return str(trireme.client.get_model_version_by_alias("graded", "champion").version)


def steps(trireme):
    return set(trireme.nested(trireme.parents()[0]))


def test_only_what_has_changed_is_trained_and_only_what_is_better_is_kept(trireme, graded, webhook):
    def retrain(goodness, *more):
        result = trireme.call("run", "retraining", *graded(goodness, "workers=0", *more))
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    assert "compare   finished" in (said := retrain(0.5))
    assert "there is no champion yet" in said
    assert champion(trireme) == "1"

    said = retrain(0.5)
    assert "champion version 1 was trained from this commit, data and parameters" in said
    assert steps(trireme) == {"checkout", "dataset", "compare", "finish"}
    assert webhook.told[-1]["reason"].startswith("nothing to train")

    said = retrain(0.4)
    assert "changed since champion version 1: data " in said
    assert "worse" in said
    assert champion(trireme) == "1"
    assert (webhook.told[-1]["alias"], webhook.told[-1]["version"]) == ("challenger", "2")

    said = retrain(0.4)
    (_, worse, *_) = trireme.parents()
    assert f"run {worse.info.run_name} has tried this commit, data and parameters" in said
    assert "train" not in steps(trireme)

    said = retrain(0.2, "warm_start=true", 'args=["--more", "0.1"]')
    assert 'args ["--more", "0.1"] was null' in said
    assert "better" in said
    workspace = trireme.run_directory() / "workspace"
    assert float((workspace / "model" / "goodness").read_text()) == pytest.approx(0.8)
    assert champion(trireme) == "3"

    last = webhook.told[-1]
    assert (last["pipeline"], last["status"]) == ("retraining", "FINISHED")
    assert (last["model"], last["version"], last["alias"]) == ("graded", "3", "champion")
    assert last["metrics"]["held_out_goodness"] == pytest.approx(0.8, abs=0.01)
    assert "graded version 3 is champion" in last["text"]
    assert trireme.parents()[0].info.run_id in last["page"]
    assert len(webhook.told) == 5
    for log in (trireme.home / "runs").rglob("*"):
        assert not log.is_file() or b"key=k" not in log.read_bytes()

    # From the same model as then, whatever has become the champion since.
    done = trireme.call("reproduce", trireme.parents()[0].info.run_id)
    assert (done.returncode, "is bit-identical" in done.stdout) == (0, True), (
        done.stdout + done.stderr
    )

    (start := trireme.home / "start").mkdir()
    (start / "weights").write_text("1")
    more = "warm_start=true", 'args=["--more", "0.1"]', f"base_model={start}"
    assert "changed since champion version 3: base model " in (said := retrain(0.2, *more))
    assert " was none" in said
    (start / "weights").write_text("2")
    assert "changed since" in retrain(0.2, *more)
    assert "nothing to train" in retrain(0.2, *more)


def test_of_two_retrainings_at_the_same_moment_one_becomes_champion(trireme, graded):
    """Both have beaten none, and one of them is late."""
    parameters = graded(0.5, "workers=0")
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda _: trireme.run("run", "retraining", *parameters), range(2)))
    assert [result.returncode for result in ended] == [0, 0], ended
    promoted = [
        re.search(r"Registered +graded, version \d, champion\n", one.stdout) for one in ended
    ]
    assert sum(map(bool, promoted)) == 1, ended
    late = [run.data.tags["champion"] for run in trireme.parents()]
    assert sum("is not promoted: it was compared with none" in one for one in late) == 1


def test_a_failure_is_told_too_and_a_webhook_that_is_away_fails_no_run(
    trireme, graded, webhook, monkeypatch
):
    more = ("workers=0", 'args=["--fail"]')
    result = trireme.call("run", "retraining", *graded(0.5, *more))
    assert result.returncode == 1
    (told,) = webhook.told
    assert (told["status"], told["reason"]) == ("FAILED", "replica master-0 exited with status 3")

    monkeypatch.setenv("TRIREME_WEBHOOK_URL", "ftp://127.0.0.1/")
    unreachable = ("workers=0", "min_accuracy=0", 'gate={"least": {"goodness": 9}}')
    result = trireme.call("run", "retraining", *graded(0.5, *unreachable))
    assert result.returncode == 0, result.stderr
    finish = trireme.nested(trireme.parents()[0])["finish"]
    assert "has no key url with an http or https URL" in finish.data.tags["finish"]
