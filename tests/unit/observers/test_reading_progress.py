"""Progress of a training, read from its lines; printed/ has what real programs printed."""

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from trireme import progress as kept
from trireme import tracked_step as steps
from trireme.errors import JobFailed
from trireme.observers.progress import Course, Meter
from trireme.observers.timeline import RUNNING, Life, Span
from trireme.progress import Progress
from trireme.tracking import journal, sync

PRINTED = Path(__file__).parent / "printed"


def read(*lines, every=1.0):
    """Returns the states of progress after each line that tells any, one each second."""
    course = Course()
    return [
        course.progress() for number, line in enumerate(lines) if course.read(line, number * every)
    ]


def states(name):
    """Returns the states of progress that a recorded program went through."""
    text = (PRINTED / f"{name}.txt").read_bytes().decode()
    rewritten = []
    for line in text.split("\n"):
        parts = line.split("\r")
        rewritten += ["\r".join(parts[: end + 1]) for end in range(len(parts))]
    return read(*rewritten, every=0.1)


def shares(*lines):
    return [round(state.share, 3) if state.share is not None else None for state in read(*lines)]


def test_a_trainer_of_hugging_face_goes_from_nothing_to_all():
    shares = [state.share for state in states("transformers")]
    assert shares == sorted(shares)  # its evaluation has a bar of its own in between
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(set(shares)) > 60


def test_keras_goes_through_its_epochs():
    found = states("keras")
    shares = [state.share for state in found]
    again = shares.index(0.0, shares.index(1.0))  # the second of two calls of fit
    first, second = shares[:again], shares[again:]
    assert first == sorted(first)
    assert second == [0.0, 0.5, 0.5, 1.0]
    assert (first[0], first[-1]) == (0.0, 1.0)
    assert 0.0 < first[3] < 0.5


def test_lightning_tells_epochs_but_not_how_many():
    found = states("lightning_tqdm")
    assert {state.share for state in found} == {None}
    words = [state.words.partition(",")[0] for state in found]
    assert words[0] == "0% of epoch 0"
    assert words[-1] == "100% of epoch 2"
    assert "48% of epoch 1" in words
    # Neither its sanity check nor its validation counts, each of whose bars has an end of its own.
    percents = [int(word.partition("%")[0]) for word in words if word.endswith("epoch 1")]
    assert percents == sorted(percents)


def test_a_rich_bar_of_lightning_tells_the_last_epoch():
    assert [state.share for state in states("lightning_rich")] == [1.0]
    assert shares("Epoch 0/9  ━━━━━━━━━━━━ 13/25 0:00:01 • 0:00:00 33.31it/s loss: -7.427") == [
        0.052
    ]


def test_bars_of_tqdm_with_epochs_and_validation():
    found = states("tqdm")
    shares = [state.share for state in found]
    trained = shares[: shares.index(1.0) + 1]
    assert trained == sorted(trained)
    assert (trained[0], len(set(trained)) > 15) == (0.0, True)


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("epoch 3/10 loss 0.52 accuracy 0.9", 0.3),
        ("Epoch 3/10", 0.2),
        ("Epoch [3/10], Step [450/1000], Loss: 0.3", 0.245),
        ("[2026-01-01 10:00:00] INFO epoch 3 of 10: loss=0.5", 0.3),
        ("step 450/1000 loss 3.1", 0.45),
        ("Iteration 450 / 1000", 0.45),
        ("round 3/10 loss 0.5", 0.3),
        ("[450/1000] loss 0.3", 0.45),
        ("45/100 [============>.................] - ETA: 3s - loss: 0.1", 0.45),
        ("45/100 ━━━━━━━━━━━━━━━━━━━━ 12s 30ms/step - loss: 0.1", 0.45),
        (" 45%|████▌     | 45/100 [00:12<00:15,  3.62it/s, loss=0.1]", 0.45),
        ("Epoch 3/10:  45%|████▌     | 45/100 [00:12<00:15,  3.62it/s, loss=0.1]", 0.245),
        ("Epochs:  30%|███       | 3/10 [00:12<00:15,  3.62s/it]", 0.3),
        (" 45%|████▌     | 45.0k/100k [00:12<00:15, 3.62kit/s]", 0.45),
        (
            "\x1b[1m45/100\x1b[0m \x1b[32m━━━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m12s\x1b[0m 30ms/step",
            0.45,
        ),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300039", None),
        ("| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch  5.23 | loss  7.61", None),
        ("450/1000 steps, loss 0.3", 0.45),
        ("Epoch: [1][  10/1252]\tTime  0.5 ( 0.6)\tLoss 6.9", None),
        (" [2026-01-01 10:00:00] iteration      100/  500000 | consumed samples: 25600 |", 0.0),
        (" iteration        5/      10 | consumed samples: 40 | loss: 1.0E+00 |", 0.5),
        ("01/01 10:00:00 - mmengine - INFO - Iter(train) [ 450/1000]  lr: 1e-02", 0.45),
    ],
)
def test_a_line_tells_how_far_it_is(line, share):
    assert shares(line) == [share]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "loss 0.45 3/4",
        "Loading weights:  45%|████▌     | 45/100 [00:12<00:15,  3.62it/s]",
        "model.safetensors:  45%|████▌     | 45.0M/100M [00:12<00:15, 3.62MB/s]",
        "Evaluated 45/100 batches",
        "45/100 files",
        "Map:  45%|████▌     | 450/1000 [00:00<00:00, 9000.00 examples/s]",
        "Validation DataLoader 0:  20%|██        | 1/5 [00:00<00:00, 449.69it/s]",
        "Test: [ 10/50]\tTime 0.5",
        "01/01 10:00:00 - mmengine - INFO - Epoch(val) [1][10/79]    eta: 0:00:05  time: 0.1",
        "resuming after epoch 3 and 640 samples",
        "step 5/0",
        "step 12/10",
        "45it [00:12, 3.62it/s]",
    ],
)
def test_other_lines_tell_nothing(line):
    assert read(line) == []


def test_speed_and_time_left_come_from_our_clock():
    words = [state.words for state in read(*(f"step {step}/100" for step in range(0, 100, 10)))]
    assert words[0] == "0%"
    assert words[3] == "30%, 10 steps/s, 0:07 left"
    assert read("epoch 1/4 loss 1", "epoch 2/4 loss 1", every=90.0)[-1].words == (
        "50%, 90.0 s/epoch, 3:00 left"
    )
    mnist = [f"Train Epoch: 1 [{seen}/60000 (1%)]\tLoss: 2.3" for seen in (0, 640)]
    assert read(*mnist, every=2.0)[-1].words == "1% of epoch 1, 320 samples/s"
    assert read("{'loss': 0.5, 'epoch': 1.2}")[-1].words == "epoch 1.2"
    language = "| epoch {:3d} | {:5d}/ 2983 batches | lr 20.00 | ms/batch  5.23 | loss  7.61"
    lines = [language.format(epoch, batch) for epoch in (1, 2) for batch in (200, 2800)]
    lines.insert(2, "| end of epoch   1 | time: 18.42s | valid loss  5.63 | valid ppl   278.36")
    assert [state.words.partition(",")[0] for state in read(*lines)] == [
        *("6% of epoch 1", "93% of epoch 1", "6% of epoch 2", "93% of epoch 2")
    ]


def test_mmengine_counts_within_an_epoch_also_in_the_first():
    line = (
        "01/01 10:00:00 - mmengine - INFO - Epoch(train) {:>5}[{:>3}/100]  lr: 1e-02  eta: 0:05:00"
    )
    lines = [line.format(f"[{epoch}]", done) for epoch in (1, 2, 10) for done in (50, 100)]
    lines.insert(
        2, "01/01 10:00:00 - mmengine - INFO - Epoch(val) [1][79/79]    accuracy/top1: 50.0"
    )
    found = read(*lines)
    assert {state.share for state in found} == {None}
    assert [state.words.partition(",")[0] for state in found] == [
        *("50% of epoch 1", "100% of epoch 1", "50% of epoch 2", "100% of epoch 2"),
        *("50% of epoch 10", "100% of epoch 10"),
    ]


def test_lines_of_before_that_come_at_once_are_no_speed():
    course = Course()
    for step in range(50):  # as when a step finds its job again, and reads its log from the start
        course.read(f"step {step}/100", step / 100)
    for step in (50, 51, 52):
        course.read(f"step {step}/100", (step - 50) * 10.0 + 1.0)
    assert course.progress().words == "52%, 10.0 s/step, 8:00 left"


def tqdm(done, total, label=""):
    return f"{label}{100 * done // total:3}%|███| {done}/{total} [00:12<00:15,  3.62it/s]"


def test_validation_does_not_set_it_back():
    evaluated = [tqdm(50, 200), tqdm(1, 20), tqdm(20, 20), tqdm(51, 200)]
    assert shares(*evaluated) == [0.25, 0.255]
    epochs = [f"Epoch {epoch}/2" for epoch in (1, 2)]
    heading = [epochs[0], tqdm(5, 10), tqdm(10, 10), tqdm(1, 4), tqdm(4, 4)]
    assert shares(*heading, epochs[1], tqdm(5, 10)) == [0.0, 0.25, 0.5, 0.5, 0.75]


def test_a_bar_that_begins_again_is_of_an_epoch():
    found = read(tqdm(5, 10), tqdm(10, 10), tqdm(1, 4), tqdm(4, 4), tqdm(0, 10), tqdm(5, 10))
    assert [state.words.partition(",")[0] for state in found] == [
        "50%",
        "100%",
        "0% of epoch 2",
        "50% of epoch 2",
    ]


def test_a_bar_of_the_whole_goes_on_from_epoch_to_epoch():
    lines = [tqdm(10, 40), "epoch 1/4 loss 1", tqdm(11, 40), tqdm(20, 40), "epoch 2/4 loss 1"]
    assert shares(*lines, tqdm(21, 40))[-1] == 0.525


def test_a_bar_of_an_epoch_whose_line_comes_at_its_end():
    epoch = [tqdm(0, 10), tqdm(10, 10)]
    found = shares(*epoch, "epoch 1/4 loss 1", *epoch, "epoch 2/4 loss 1", tqdm(0, 10), tqdm(5, 10))
    assert found[2:] == [0.25, 0.25, 0.5, 0.5, 0.5, 0.625]


def test_what_comes_before_training_gives_way_to_it():
    prepared = [tqdm(0, 7), tqdm(7, 7)]
    assert shares(*prepared, "Epoch 1/2", tqdm(5, 10))[2:] == [0.0, 0.25]
    assert shares(*prepared, *(tqdm(done, 10) for done in range(10)))[2:] == [
        *(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    ]


def test_processes_of_one_replica_are_as_far_as_the_first():
    lines = [tqdm(45, 100), tqdm(44, 100), tqdm(46, 100), tqdm(45, 100)]
    assert shares(*lines) == [0.45, 0.46]
    late = [tqdm(1, 10, "Epoch 2/2: "), tqdm(10, 10, "Epoch 1/2: "), tqdm(2, 10, "Epoch 2/2: ")]
    assert shares(*late) == [0.55, 0.6]


def test_a_program_that_is_started_again_begins_again():
    assert shares("epoch 5/10 loss 1", "epoch 4/10 loss 1") == [0.5, 0.4]


@pytest.mark.parametrize(
    "line",
    [
        "1%|" * 400_000,
        "epoch " * 200_000,
        "[" * 1_000_000,
        "9" * 1_000_000 + "/" + "9" * 1000,
        "━" * 1_000_000 + " 1/2 ",
        " " * 1_000_000,
        "step " + "1" * 500 + "/" * 500,
        "\r" * 1_000_000,
        "\x1b[" * 500_000,
        "\x1b]" * 500_000,
    ],
)
def test_a_hostile_line_takes_no_time(line):
    started = time.process_time()
    Course().read(line, 0.0)
    assert time.process_time() - started < 0.2


def test_the_end_of_a_long_line_counts():
    bars = "".join(f"\r{tqdm(done, 100_000)}" for done in range(20_000))
    assert shares(bars) == [0.2]


def test_only_the_leading_replica_counts(monkeypatch):
    states, now = [], [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    meter = Meter("master-0", states.append)
    for replica, line in [("worker-0", "step 9/10"), ("master-0", "step 1/10")]:
        meter.lines(replica, line)
    assert states == [Progress(0.1, "10%")]
    meter.lines("master-0", "step 2/10")  # at once: it is passed on later
    assert len(states) == 1
    now[0] += 2
    meter.lines("master-0", "step 4/10")
    assert states[-1] == Progress(0.4, "40%, 1.0 steps/s, 0:06 left")
    meter.end(JobFailed("the loss is no number"))
    assert states[-1] == Progress(0.4, "40%, 1.0 steps/s")


@pytest.mark.parametrize(
    ("line", "at_the_end"),
    [
        ("step 970/1000", Progress(1.0, "100%")),  # which tells every tenth step
        ("epoch 4/100 loss 1", Progress(1.0, "100%")),  # which stops early
        ("Train Epoch: 3 [58880/60000 (98%)]", Progress(None, "100% of epoch 3")),
        ("epoch 7 loss 1", Progress(None, "epoch 7")),
    ],
)
def test_a_training_that_has_finished_is_through(line, at_the_end):
    states = []
    meter = Meter("master-0", states.append)
    meter.lines("master-0", line)
    meter.end(None)
    assert states[-1] == at_the_end


@pytest.mark.parametrize("after", [0, 3, 10_000])
def test_of_lines_that_come_together_the_last_that_tells_progress_counts(after):
    states = []
    meter = Meter("master-0", states.append)
    steps = [f"step {done}/1000" for done in range(500)]
    meter.lines("master-0", "\n".join(steps + after * ["a line without any"]))
    assert states == [Progress(0.499, "49%")]


def test_what_is_kept_is_read_as_it_was(tmp_path):
    file = tmp_path / "progress.json"
    assert kept.read(file) is None
    for progress in (Progress(0.5, "50%", 12.5, "it waits"), Progress(None, "epoch 3")):
        kept.write(file, progress)
        assert asdict(kept.read(file)) == asdict(progress)
    for damaged in ("", "[]", "{}", '{"share": "a", "words": ""}', '{"share": NaN, "words": ""}'):
        file.write_text(damaged)
        assert kept.read(file) is None
    file.write_text(json.dumps({"share": 0.5, "words": 5}))
    assert kept.read(file) == Progress(0.5, "5")
    kept.write(tmp_path / "nowhere" / "progress.json", progress)  # a full disk is no reason to stop


def test_a_step_in_a_pod_tells_its_run_while_it_trains(tmp_path, monkeypatch, eventually):
    told = []
    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    monkeypatch.setattr(journal, "PROGRESS_EVERY", 0.01)
    monkeypatch.setattr(sync, "bring_progress", lambda *arguments: told.append(arguments))
    with journal.opened(tmp_path, "train"), steps._telling_progress("train", tmp_path):
        time.sleep(0.1)
        assert told == []
        journal.log_progress(Progress(0.5, "50%"))
        assert eventually(lambda: told)
        time.sleep(0.1)
        assert told == [(tmp_path, "train", "abc")]  # once, as it has not gone on


def test_a_step_does_not_end_while_its_run_is_told(tmp_path, monkeypatch):
    began, told = threading.Event(), []

    def bring(*arguments):
        began.set()
        time.sleep(0.3)
        told.append(arguments)

    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    monkeypatch.setattr(journal, "PROGRESS_EVERY", 0.01)
    monkeypatch.setattr(sync, "bring_progress", bring)
    with journal.opened(tmp_path, "train"), steps._telling_progress("train", tmp_path):
        journal.log_progress(Progress(0.5, "50%"))
        assert began.wait(30)
    assert told == [(tmp_path, "train", "abc")]


def test_a_server_that_is_away_does_not_hold_up_a_step(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with journal.opened(tmp_path, "train"):
        journal.log_progress(Progress(0.5, "50%"))
    sync.bring_progress(tmp_path, "train", "abc")
    journal.forget(tmp_path, "train")
    assert kept.read(journal.progress_path(tmp_path, "train")) is None


def test_a_program_that_is_started_again_is_counted_anew():
    counted, lives = [], {"master-0": Life([Span(RUNNING, 1.0)])}
    meter = Meter("master-0", count=lambda unit, done: counted.append((unit, done)))
    job = SimpleNamespace(lives=lambda: lives)
    meter.tick(job)
    meter.lines("master-0", "epoch 0/4\nstep 5/10\nstep 9/10")
    lives["master-0"] = Life([Span(RUNNING, 1.0, 2.0, "killed"), Span(RUNNING, 3.0)])
    meter.tick(job)
    meter.lines("master-0", "step 6/10")
    assert [done for _, done in counted] == [9, 6]


@pytest.mark.parametrize(
    ("lines", "done"),
    [
        (["step 30/100"], ("step", 30)),
        (["epoch 1/3", "step 4/10", "epoch 2/3", "step 4/10"], ("step", 14)),
        (["Epoch 2/3 loss 0.1"], ("epoch", 2)),
        (["epoch 0/3 loss 0.1", "epoch 1/3 loss 0.1"], ("epoch", 2)),
        (["loss 0.5"], None),
    ],
)
def test_what_is_done_is_counted_from_the_beginning(lines, done):
    course = Course()
    for number, line in enumerate(lines):
        course.read(line, float(number))
    assert course.done() == done


def test_epochs_that_are_numbered_from_0_are_so_when_it_is_started_again():
    course = Course()
    course.read("epoch 0/3 loss 0.1", 0.0)
    again = course.again()
    again.read("epoch 2/3 loss 0.1", 1.0)
    assert again.done() == ("epoch", 3)
