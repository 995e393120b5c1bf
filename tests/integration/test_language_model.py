"""The language model's trainer: however many processes train, they compute what one does."""

import json
import random
import shutil
import signal

import numpy as np
import pytest
import torch
from stores import free_port

import trainers

SAMPLES, LENGTH, TOKENS = 37, 16, 64  # 37: the last batch of an epoch has 5 samples, not 8
STEPS, EVERY = 20, 3
NETWORK = ("--layers", "4", "--width", "32", "--heads", "4", "--vocabulary", str(TOKENS))
COMMON = (*NETWORK, "--batch-size", "8", "--micro-batch", "2", "--warm-up", "5", "--log-every", "1")
TOLERANCE = 1e-5

pytestmark = pytest.mark.slow


def make_data(directory):
    """Writes tokens of which most follow from the one before; some are not to be foretold."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(0, TOKENS, (SAMPLES, LENGTH + 1))
    for place in range(1, LENGTH + 1):
        follows = draw.random(SAMPLES) < 0.7
        tokens[follows, place] = (tokens[follows, place - 1] + 1) % TOKENS
    y = np.where(draw.random((SAMPLES, LENGTH)) < 0.1, -1, tokens[:, 1:])
    np.savez(directory / "train.npz", x=tokens[:, :-1].astype(np.uint8), y=y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the dataset, in which each training has one of its own."""
    folder = tmp_path_factory.mktemp("language")
    make_data(folder)
    return folder


@pytest.fixture(scope="module")
def start(folder):
    """Starts a training that can be looked up by its name."""
    started = []

    def start(name, world_size, *arguments, steps=STEPS, every=STEPS):
        said = (*COMMON, "--steps", str(steps), "--save-every", str(every), *arguments)
        port = free_port() if world_size else 0
        data = {"DATA_DIR": str(folder)}
        training = trainers.start("language_model", folder / name, port, world_size, *said, **data)
        started.append(training)
        return training

    yield start
    for training in started:
        training.end()


@pytest.fixture(scope="module")
def finished(start):
    """Trains to the end, once for all tests that want the same."""
    known = {}

    def finished(name, world_size, *arguments, **more):
        if name not in known:
            training = start(name, world_size, *arguments, **more)
            ends = training.end()
            if -signal.SIGSEGV in ends:
                # Once in a great while a process dies in torch, which it did not load itself but
                # was forked with; who trains for real restarts it (retries).
                print(*(training.output(rank) for rank in range(world_size)))
                training = start(f"{name}-again", world_size, *arguments, **more)
                ends = training.end()
            assert set(ends) == {0}, training.output()
            known[name] = training
        return known[name]

    return finished


def weights(training):
    file = training.directory / "model" / "model.pt"
    return torch.load(file, weights_only=True)["state_dict"]


def assert_same(training, other, tolerance=TOLERANCE):
    """Compares the losses that both have of a step, and the final parameters."""
    losses, others = training.losses(), other.losses()
    for step in losses:
        assert float(losses[step]) == pytest.approx(float(others[step]), rel=tolerance), step
    final = weights(other)
    assert weights(training).keys() == final.keys()
    for name, value in weights(training).items():
        assert (value - final[name]).norm() <= tolerance * final[name].norm(), name


def assert_same_bits(training, other):
    losses, others = training.losses(), other.losses()
    assert all(losses[step] == others[step] for step in losses)
    for name, value in weights(training).items():
        assert torch.equal(value, weights(other)[name]), name


@pytest.fixture(scope="module")
def single(finished):
    return finished("single", 0)


def test_one_process_learns(single):
    losses = single.losses()
    assert list(losses) == list(range(1, STEPS + 1))
    assert float(losses[STEPS]) < float(losses[1])


@pytest.mark.parametrize(
    ("name", "world_size", "arguments"),
    [
        ("ddp-2", 2, ["--strategy", "ddp"]),
        ("ddp-4", 4, ["--strategy", "ddp"]),
        ("fsdp-2", 2, ["--strategy", "fsdp"]),
        ("fsdp-4", 4, ["--strategy", "fsdp", "--recompute"]),
        ("tp-2", 2, ["--strategy", "tp", "--micro-batch", "8"]),
        ("tp-4", 4, ["--strategy", "tp", "--micro-batch", "8"]),
        ("pp-4", 4, ["--strategy", "pp"]),
        ("dp-pp", 4, ["--strategy", "hybrid", "--pp", "2"]),
        ("tp-pp", 4, ["--strategy", "hybrid", "--tp", "2", "--pp", "2", "--micro-batch", "4"]),
        ("dp-tp-pp", 8, ["--strategy", "hybrid", "--dp", "2", "--tp", "2", "--pp", "2"]),
    ],
)
def test_every_strategy_computes_what_one_process_does(
    finished, single, name, world_size, arguments
):
    training = finished(name, world_size, *arguments)
    assert len(training.losses()) == STEPS
    assert_same(training, single)


def test_bfloat16_learns_the_same_nearly(finished, single):
    training = finished("bf16", 2, "--strategy", "fsdp", "--bf16")
    assert training.losses() != single.losses()
    assert_same(training, single, 1e-2)


def test_training_goes_on_after_a_kill_as_if_there_had_been_none(finished, start):
    world_size, arguments = 4, ("--strategy", "hybrid", "--pp", "2")
    whole = finished("dp-pp", world_size, *arguments)
    killed = start("killed", world_size, *arguments, every=EVERY)
    killed.reach(2 * EVERY + random.randrange(1, 8))  # the first checkpoint is there by then
    killed.signal(random.randrange(world_size))
    assert sorted(map(bool, killed.end())) == [True] * world_size
    assert not (killed.directory / "model").exists()

    resumed = start("killed", world_size, *arguments)
    assert set(resumed.end()) == {0}, resumed.output()
    assert "resuming after step" in resumed.output()
    assert 1 not in resumed.losses()
    assert_same_bits(resumed, whole)


def test_a_reclaimed_process_makes_all_save_and_others_go_on_with_another_strategy(start, single):
    training = start("reclaimed", 4, "--strategy", "fsdp")
    training.reach(5)
    training.signal(2, signal.SIGTERM)
    assert set(training.end()) == {128 + signal.SIGTERM}, training.output()
    (checkpoint,) = (training.directory / "checkpoints").glob("step-*")
    saved = int(checkpoint.name.removeprefix("step-"))
    assert saved >= 5 and f"stopped after step {saved}" in training.output()

    resumed = start("reclaimed", 2, "--strategy", "ddp")
    assert set(resumed.end()) == {0}, resumed.output()
    assert min(resumed.losses()) == saved + 1
    assert_same(resumed, single)


def test_a_checkpoint_that_was_cut_off_is_not_loaded(finished, start, folder):
    whole = finished("kept", 0, "--keep", "100", every=EVERY)
    kept = sorted(file.name for file in (whole.directory / "checkpoints").glob("step-*"))
    assert kept == [f"step-{step:08}" for step in (*range(EVERY, STEPS, EVERY), STEPS)]
    to = folder / "cut-off" / "checkpoints"
    to.mkdir(parents=True)
    whole_one, cut_off = (whole.directory / "checkpoints" / name for name in kept[2:4])
    whole_one.rename(to / whole_one.name)
    cut_off.rename(to / f"{cut_off.name}.partial")
    (to / f"{cut_off.name}.partial" / ".metadata").unlink()

    resumed = start("cut-off", 0, every=EVERY)
    assert resumed.end() == [0], resumed.output()
    assert "resuming after step 9\n" in resumed.output()
    assert_same_bits(resumed, whole)
    assert [file.name for file in sorted(to.glob("step-*"))] == ["step-00000018", "step-00000020"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tp", "2"], "--pp 1 --dp 1 --tp 2 makes 2 processes, and there are 1"),
        (["--vocabulary", "20"], "the data has a token 63, and --vocabulary is 20"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(start, arguments, said):
    training = start("refused", 0, *arguments)
    assert training.end() == [2]
    assert said in training.output()
    assert "Traceback" not in training.output()


def test_a_run_trains_evaluates_and_exports_it(trireme, tmp_path):
    data = tmp_path / "tokens"
    data.mkdir()
    make_data(data)
    shutil.copy(data / "train.npz", data / "test.npz")
    arguments = [*COMMON, *("--layers", "1", "--strategy", "fsdp")]
    arguments += ["--steps", "6", "--save-every", "4"]
    result = trireme.call(
        *("run", "pytorch-training", "-p", f"dataset_uri={data}", "-p", "workers=1"),
        *("-p", "entrypoint=trainers/language_model.py"),
        *("-p", f"args={json.dumps(arguments)}", "-p", "min_accuracy=0", "-p", "model_name=tokens"),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (parent,) = trireme.parents()
    steps = trireme.nested(parent)
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}
    logged = trireme.client.get_metric_history(steps["train"].info.run_id, "loss")
    assert [metric.step for metric in logged] == list(range(1, 7))
    assert 1 < parent.data.metrics["held_out_perplexity"] < 1.2 * TOKENS
    workspace = trireme.run_directory() / "workspace"
    kept = [path.name for path in sorted((workspace / "checkpoints").iterdir())]
    assert kept == ["step-00000004", "step-00000006"]
    parts = (workspace / "checkpoints" / kept[1]).glob("*.distcp")
    assert len(list(parts)) == 2  # one of each replica
    assert (workspace / "exported" / "model.onnx").exists()
    assert trireme.client.get_model_version("tokens", "1").status == "READY"
