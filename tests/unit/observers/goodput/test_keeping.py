"""A ledger is kept through jobs that are made anew, found again, and resumed after a kill."""

import json
from types import SimpleNamespace

import pytest

from trireme.observers.base import Observers
from trireme.observers.goodput import observer
from trireme.observers.goodput.kept import read, read_all
from trireme.observers.goodput.ledger import from_metrics
from trireme.observers.goodput.observer import Goodput
from trireme.observers.hangs import Hangs
from trireme.observers.timeline import RUNNING, Life, Span

MANIFEST = {
    "kind": "PyTorchJob",
    "apiVersion": "kubeflow.org/v1",
    "metadata": {"name": "train"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 2}}}
                        ]
                    }
                },
            }
        }
    },
}


@pytest.fixture
def clock(monkeypatch):
    """The time of day, which the test sets."""
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(observer.time, "time", lambda: now.at)
    return now


class Job:
    """A job with one replica that runs from some time on."""

    def __init__(self, began, uid=None):
        self.manifest = {"metadata": {"name": "train"} | ({"uid": uid} if uid else {})}
        self.has_ended, self.spans = False, [Span(RUNNING, began)]

    def lives(self):
        return {"master-0": Life(self.spans)}

    def end(self, at, failed=""):
        self.spans, self.has_ended = [self.spans[0]._replace(ended=at, failed=failed)], True
        return self


def keeping(file, **more):
    hangs = Hangs()
    return Goodput(file, "master-0", MANIFEST, hangs, **more), hangs


def train(goodput, clock, first, last):
    """Has a program do a step a second."""
    for step in range(first, last + 1):
        clock.at += 1
        goodput.count("step", step)


def test_a_run_that_was_killed_and_is_resumed_has_one_ledger(tmp_path, clock):
    file = tmp_path / "logs" / "goodput.json"
    one, _ = keeping(file)
    one.prepare({})
    job = Job(1000.0)
    one.tick(job)
    train(one, clock, 1, 50)
    one._next = 0.0  # ten seconds later
    one.tick(job)  # and then kill -9
    assert read(file).seconds == pytest.approx({"first_step": 1, "training": 49})
    clock.at = 5000.0
    two, _ = keeping(file)
    found = []
    observers = Observers([two], found.append)
    two.prepare({})
    job = Job(5000.0)
    two.tick(job)
    clock.at += 9
    train(two, clock, 31, 100)
    two.tick(job.end(5079.0))
    observers.end(None)
    whole = read(file)
    assert whole.seconds == pytest.approx({"first_step": 11, "training": 49 + 50, "repeated": 19})
    assert (whole.interruptions, whole.restarting) == (1, 10)
    assert whole.gpu_seconds == pytest.approx({k: 2 * v for k, v in whole.seconds.items()})
    assert from_metrics(found[-1].metrics).seconds == pytest.approx(whole.seconds)


def test_a_job_that_is_found_again_is_one_job(tmp_path, clock):
    file = tmp_path / "goodput.json"
    one, _ = keeping(file)
    job = Job(1000.0, uid="a")
    one.tick(job)
    train(one, clock, 1, 50)
    one._next = 0.0
    one.tick(job)
    two, _ = keeping(file)
    clock.at += 1
    two.tick(job)
    two.count("step", 50)  # the last line comes again
    train(two, clock, 51, 60)
    two.tick(job.end(clock.at))
    assert read(file).seconds == pytest.approx({"first_step": 1, "training": 60})
    assert read(file).interruptions == 0


def test_a_job_that_is_made_anew_in_the_same_process_goes_on_from_the_last(tmp_path, clock):
    file = tmp_path / "goodput.json"
    one, _ = keeping(file)
    job = Job(1000.0, uid="a")
    one.tick(job)
    train(one, clock, 1, 50)
    one.tick(job.end(1050.0, "its node was lost"))
    clock.at = 1100.0
    job = Job(1100.0, uid="b")
    one.tick(job)
    clock.at += 4
    train(one, clock, 41, 60)
    one.tick(job.end(clock.at))
    whole = read(file)
    assert whole.seconds == pytest.approx({"first_step": 6, "training": 49 + 10, "repeated": 9})
    assert whole.interruptions == 1


def test_checkpoints_are_looked_for_in_each_job_that_is_made_anew(tmp_path):
    one, _ = keeping(tmp_path / "goodput.json", checkpoints=tmp_path)
    watches = []
    for uid in "ab":
        one.tick(job := Job(1000.0, uid=uid))
        watches.append(one._watch)
        assert one._watch.is_alive()
        one.tick(job.end(1050.0))
        watches[-1].join(5)
        assert not watches[-1].is_alive()
    assert watches[0] is not watches[1]


def test_of_a_sweep_each_trial_counts_once(tmp_path, clock):
    # What the best one has left lies also where a training without a sweep would leave it.
    for folder in ("trials/000/steps/train", "trials/001/steps/train", "steps/train"):
        one, _ = keeping(tmp_path / folder / "goodput.json")
        one.tick(Job(1000.0).end(1010.0))
    assert sum(of.whole for of in read_all(tmp_path)) == 20


@pytest.mark.parametrize("done", [-1.0, float("nan"), float("inf")])
def test_what_is_no_progress_spoils_no_file(tmp_path, clock, done):
    one, _ = keeping(tmp_path / "goodput.json")
    job = Job(1000.0)
    one.tick(job)
    one.count("epoch", done)
    one.tick(job.end(1010.0))
    assert read(tmp_path / "goodput.json").whole == 10


def test_a_hang_is_known_from_who_finds_it(tmp_path, clock):
    file = tmp_path / "goodput.json"
    one, hangs = keeping(file)
    job = Job(1000.0)
    one.tick(job)
    train(one, clock, 1, 50)
    hangs.spans.append((1050.0, None))
    clock.at = 1500.0
    one.tick(job.end(1500.0, "hangs"))
    assert read(file).seconds == pytest.approx({"first_step": 1, "training": 49, "hang": 450})


def test_many_steps_take_little_room(tmp_path, clock):
    file = tmp_path / "goodput.json"
    one, _ = keeping(file)
    job = Job(1000.0)
    one.tick(job)
    train(one, clock, 1, 20_000)
    one.tick(job.end(clock.at))
    assert file.stat().st_size < 100_000
    assert read(file).seconds == pytest.approx({"first_step": 1, "training": 19_999})


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"before": 1}', '{"before": {"seconds": {"a": -1}}}', "null"]
)
def test_what_is_no_ledger_is_none(tmp_path, text, clock):
    file = tmp_path / "goodput.json"
    file.write_text(text)
    assert read(file) is None
    one, _ = keeping(file)
    one.tick(Job(1000.0).end(1010.0))
    assert read(file).seconds == {"training": 10}
    assert json.loads(file.read_text())["now"]["silent"] == 10
