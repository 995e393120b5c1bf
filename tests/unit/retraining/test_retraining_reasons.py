"""components/retraining: what is trained again, and what is not."""

import pytest

from trireme.job.job import TrainingJob
from trireme.retraining import compare
from trireme.retraining.history import JUDGED, Attempt, History
from trireme.retraining.history import TAG as RETRAINING
from trireme.runner.inputs import TAG, inputs_of
from trireme.tracking.registry import Champion

BASE_MODEL = "base_model.fingerprint"


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Asks whether to train, after what has been trained before."""

    def ask(champion, attempts=(), base_model="", **fields):
        before = History(Champion("3", None, champion), [Attempt(*each) for each in attempts])
        monkeypatch.setattr(compare.history, "load", lambda *_, **__: before)
        job = TrainingJob(entrypoint="train.py", **fields)
        return compare.compare(
            job, "c", "f", base_model, "m", [], tmp_path, warm_start=False, force=False
        )

    return ask


def tags(**more):
    """Those of what was trained from the same."""
    same = {"git.commit": "c", "dataset.fingerprint": "f"}
    return same | {TAG: inputs_of(TrainingJob(entrypoint="train.py"))} | more


def test_the_place_that_images_are_pulled_from_is_no_change(asked):
    pulled = {"ghcr.io/trireme/pytorch:0.1.0": "registry.example.org/pytorch@sha256:" + "0" * 64}
    assert not asked(tags(), images=pulled).changed
    assert asked(tags(), image="registry.example.org/mine").changed


def test_an_attempt_with_a_base_model_is_none_without(asked):
    tried = {RETRAINING: "m", JUDGED: "[]", "gate": "failed"}
    champion = tags(**{"git.commit": "b"})
    without, with_one = ("night", tags(**tried)), ("night", tags(**tried, **{BASE_MODEL: "b1"}))
    assert "night has tried" in asked(champion, [without]).reason
    assert asked(champion, [with_one]).changed
    assert asked(champion, [without], base_model="b1").changed
    assert "night has tried" in asked(champion, [with_one], base_model="b1").reason
