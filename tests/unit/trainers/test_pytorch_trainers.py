"""trainers: what the programs decide before and beside training."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from trireme.errors import InputError
from trireme.strategy import choose, reading, words
from trireme.strategy.communication import Machines
from trireme.strategy.devices import DEVICES
from trireme.strategy.memory import recipe
from trireme.strategy.model import llama, of_size

pytestmark = pytest.mark.slow  # it loads PyTorch's distributed parts

SHAPE = ("--layers", "2", "--width", "32", "--heads", "4", "--vocabulary", "64")


@pytest.fixture
def parse(monkeypatch):
    """Parses a command line of the language model's trainer."""
    import options

    def parse(*arguments, world_size=1):
        monkeypatch.setenv("WORLD_SIZE", str(world_size))
        monkeypatch.setattr(sys, "argv", ["language_model.py", *arguments])
        return options.parse("Train a language model.")

    return parse


@pytest.mark.parametrize(
    ("arguments", "world_size", "strategy", "mesh"),
    [
        ([], 1, "single", (1, 1, 1)),
        ([], 4, "ddp", (1, 4, 1)),
        (["--strategy", "fsdp"], 4, "fsdp", (1, 4, 1)),
        (["--strategy", "tp"], 4, "tp", (1, 1, 4)),
        (["--strategy", "pp"], 4, "pp", (4, 1, 1)),
        (["--strategy", "hybrid", "--tp", "2"], 8, "hybrid", (1, 4, 2)),
        (["--strategy", "hybrid", "--tp", "2", "--pp", "2"], 8, "hybrid", (2, 2, 2)),
    ],
)
def test_the_mesh_has_all_processes(parse, arguments, world_size, strategy, mesh):
    parsed = parse(*arguments, world_size=world_size)
    assert (parsed.strategy, parsed.mesh) == (strategy, mesh)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "tp", "--tp", "3"], "makes 3 processes, and there are 4"),
        (["--strategy", "single"], "--strategy single has one process; 4 would train alone"),
        (["--strategy", "tp", "--tp", "2", "--pp", "2"], "divides along --tp only; hybrid along"),
        (["--strategy", "tp", "--heads", "2"], "--tp 4 has to divide 2 heads and a vocabulary"),
        (["--strategy", "pp", "--layers", "2"], "--pp 4 has to be at most the number of layers, 2"),
        (["--batch-size", "6"], "--batch-size 6 has to be a multiple of 4"),
        (["--strategy", "pp", "--micro-batch", "16"], "--pp 4 needs as many micro-batches, and"),
        (["--width", "30"], "--width 30 has to be a multiple of twice --heads 4"),
        (["--steps", "0"], "argument --steps: invalid positive value: '0'"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(parse, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        parse(*arguments, world_size=4)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("size", ["toy", "gpt2-124m", "gpt2-350m", "gpt2-1.5b", "llama-7b"])
def test_the_command_strategy_counts_as_the_network_does(size):
    import cost
    import transformer

    shape = transformer.SIZES[size]
    with torch.device("meta"):
        network = transformer.LanguageModel(*shape)
    model = llama(**shape._asdict())
    assert model.parameters == sum(value.numel() for value in network.parameters())
    assert model.operations(1024) == cost.operations(shape, 1024)


def test_the_trainer_takes_the_words_of_the_command_strategy(parse):
    model, kept = of_size(7 * 10**9), recipe("bf16", "adamw", has_master=True)
    machines = Machines(2, 8, 80e9, 400e12, 450e9, 50e9)
    found = choose.choices(model, kept, machines, 256, 2048)
    assert {"ddp", "fsdp", "pp", "hybrid"} <= {each.name for each in found}
    for each in found:
        given = words.pytorch(each, model, kept, machines)["args"].split()
        parsed = parse(*given, world_size=machines.world)
        assert parsed.mesh == (each.mesh.pp, each.mesh.dp, each.mesh.tp)
        assert (parsed.strategy, parsed.micro_batch) == (each.name, each.work.samples)
        assert (parsed.bf16, parsed.recompute) == (True, each.work.recompute)


def test_the_command_strategy_reads_a_model_that_was_left(tmp_path, monkeypatch):
    import helpers
    import transformer

    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    shape = transformer.Shape(2, 64, 4, 128)
    network = transformer.LanguageModel(*shape)
    helpers.save_model("transformer:LanguageModel", shape._asdict(), network)
    assert reading.model(str(tmp_path / "model.pt")) == llama(*shape)
    weights = {"of": torch.empty(2, 10**6, dtype=torch.bfloat16)}
    torch.save(weights, tmp_path / "other.pt")
    assert reading.model(str(tmp_path / "other.pt")) == of_size(2 * 10**6)
    (tmp_path / "none.pt").write_bytes(b"none")
    with pytest.raises(InputError, match=r"MODEL \S+/none.pt: cannot be read: "):
        reading.model(str(tmp_path / "none.pt"))


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_every_sample_comes_once_an_epoch_in_another_order_each(tmp_path, parts):
    import helpers

    count = 37
    np.savez(tmp_path / "train.npz", x=np.arange(count), y=np.arange(count))
    each = [helpers.Samples(tmp_path, 8, part, parts, 0) for part in range(parts)]
    seen, orders = 0, []
    for _ in range(2):
        order = []
        while len(order) < count:
            batches = [samples.batch(seen) for samples in each]
            targets = torch.cat([batch.targets for batch in batches])
            real = targets != helpers.NONE
            assert torch.equal(torch.cat([batch.inputs for batch in batches])[real], targets[real])
            assert {batch.samples for batch in batches} == {int(real.sum())}
            order += targets[real].tolist()
            seen += batches[0].samples
        assert sorted(order) == list(range(count))
        orders.append(order)
    assert orders[0] != orders[1]


def test_samples_in_files_of_their_own_are_the_same(tmp_path):
    import helpers

    x, y = np.arange(12).reshape(6, 2), np.arange(6)
    np.savez(tmp_path / "train.npz", x=x, y=y)
    (tmp_path / "files" / "train").mkdir(parents=True)
    for name, array in (("x", x), ("y", y)):
        np.save(tmp_path / "files" / "train" / f"{name}.npy", array)
    one, other = (helpers.Samples(data, 4, 0, 1, 0) for data in (tmp_path, tmp_path / "files"))
    for seen in (0, 4):
        assert all(map(torch.equal, one.batch(seen)[:2], other.batch(seen)[:2]))


def test_the_learning_rate_rises_and_falls(parse):
    import language_model

    arguments = parse("--steps", "100", "--warm-up", "10", "--learning-rate", "1")
    rates = [language_model.rate(step, arguments) for step in range(100)]
    assert rates[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[99] == pytest.approx(0.1, abs=1e-3)


def test_positions_turn_queries_without_changing_their_length():
    import transformer

    x = torch.randn(1, 2, 5, 8)
    turned = transformer.rotate(x)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1))
    # What two positions have in common depends on their distance alone.
    same = transformer.rotate(x[:, :, :1].expand(-1, -1, 5, -1))
    products = same @ same.transpose(-1, -2)
    assert math.isclose(products[0, 0, 0, 1], products[0, 0, 3, 4], rel_tol=1e-4)


@pytest.mark.parametrize(
    ("name", "speed"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", 0.0),
        ("NVIDIA H20", 148e12),
    ],
)
def test_the_peak_of_a_gpu_is_that_of_its_data_sheet(monkeypatch, name, speed):
    import cost

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert cost.peak_flops(torch.device("cuda", 0)) == speed
    assert cost.peak_flops(torch.device("cpu")) == 0


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("a100", "A100"),
        ("h100", "H100"),
        ("h100-pcie", "H100 PCIe"),
        ("h20", "H20"),
        ("a10", "A10"),
    ],
)
def test_the_command_strategy_knows_the_same_peaks(device, name):
    import cost

    assert DEVICES[device].bf16 == cost.PEAKS[name]


def test_utilisation_is_logged_where_the_peak_is_known(parse, monkeypatch, tmp_path, capsys):
    import cost
    import language_model

    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setattr(cost, "peak_flops", lambda device: 1e12)
    clock = iter([0.0, 2.0, 2.0])
    times = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(language_model, "time", times)
    arguments = parse("--bf16", "--log-every", "1", "--dp", "2", world_size=2)
    meter = language_model.Meter(arguments, torch.device("cuda", 0))
    meter.log(1, 0.5, torch.Size((8, 128)))  # in 2 seconds, with 2 GPUs
    used = 8 * 128 / 2 * cost.operations(arguments.shape, 128) / 2e12
    said = capsys.readouterr().out
    assert f"tokens_per_second 512 model_flops_utilization {used:.7g}\n" in said


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (None, None, "has no train.npz, nor"),
        ((5, 8, 8), [0] * 5, r"they are float32 \(5, 8, 8\) and int64 \(5,\)"),
        ((4, 1, 8, 8), [0] * 5, r"they are float32 \(4, 1, 8, 8\) and int64 \(5,\)"),
        ((0, 1, 8, 8), [], r"they are float32 \(0, 1, 8, 8\) and float64 \(0,\)"),
        ((2, 1, 8, 8), [0.5, 1.5], r"they are float32 \(2, 1, 8, 8\) and float64 \(2,\)"),
        ((2, 1, 8, 8), [0, -1], "y has a class -1; they count from 0"),
    ],
)
def test_data_that_do_not_fit_are_a_sentence(tmp_path, x, y, said):
    import argparse

    import helpers
    from pytorch_classifier import make_network

    if x:
        np.savez(tmp_path / "train.npz", x=np.zeros(x, np.float32), y=np.array(y))
    with pytest.raises(helpers.Ended, match=said) as ended:
        samples = helpers.Samples(tmp_path, 4, 0, 1, 0)
        make_network(argparse.Namespace(width=2), samples, torch.device("cpu"))
    assert ended.value.status == 2


def test_training_starts_from_a_model_of_its_own_form_alone(tmp_path, monkeypatch):
    import helpers

    monkeypatch.delenv("WARM_START_DIR", raising=False)
    network = torch.nn.Linear(3, 1)
    assert helpers.start_weights({"width": 3}, network) == {}
    monkeypatch.setenv("WARM_START_DIR", str(tmp_path))
    monkeypatch.setenv("MODEL_DIR", str(tmp_path))
    with pytest.raises(helpers.Ended, match=r"cannot start from \S+/model.pt: .*No such file"):
        helpers.start_weights({"width": 3}, network)
    helpers.save_model("net:Net", {"width": 3}, network)
    given = helpers.start_weights({"width": 3}, network)
    assert torch.equal(given["weight"], network.weight)
    for changed in (torch.nn.Linear(3, 2), torch.nn.Sequential(network)):
        with pytest.raises(helpers.Ended, match=r"its network has another (0\.)?weight"):
            helpers.start_weights({"width": 3}, changed)
    with pytest.raises(helpers.Ended, match=r"it has {.* 3}, not {.* 4}") as ended:
        helpers.start_weights({"width": 4}, network)
    assert ended.value.status == 2
    (tmp_path / "model.pt").write_bytes(b"none")
    with pytest.raises(helpers.Ended, match="training cannot start from"):
        helpers.start_weights({"width": 3}, network)


def test_every_layer_of_a_network_gets_its_own_weights(monkeypatch):
    import strategies
    import transformer

    monkeypatch.delenv("WARM_START_DIR", raising=False)
    shape = transformer.Shape(layers=12, width=8, heads=2, vocabulary=16)
    network = transformer.LanguageModel(*shape)
    strategies.set_weights(network, shape)
    name = "blocks.11.feed.down.weight"
    expected = transformer.initial(name, network.get_parameter(name).shape, shape.layers, 0)
    assert torch.equal(network.get_parameter(name), expected)
    assert (network.norm.weight == 1).all()


def test_what_is_random_in_a_step_depends_on_how_far_training_is(tmp_path):
    import helpers

    np.savez(tmp_path / "train.npz", x=np.arange(8), y=np.arange(8))
    one, other = (helpers.Samples(tmp_path, 4, part, 2, 0) for part in (0, 1))

    def drawn(samples, seen):
        samples.batch(seen)
        return torch.nn.functional.dropout(torch.ones(64)).tolist()

    assert drawn(one, 4) != drawn(one, 8)
    assert drawn(one, 4) != drawn(other, 4)
    assert drawn(one, 4) == drawn(helpers.Samples(tmp_path, 4, 0, 2, 0), 4)


def test_a_process_reads_the_pictures_of_its_part_alone(tmp_path):
    import helpers

    for number in range(6):
        folder = tmp_path / "train" / "odd" if number % 2 else tmp_path / "train" / "even"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 2), 40 * number).save(folder / f"{number}.png")
    read = []
    parts = [helpers.Samples(tmp_path, 4, part, 2, 0) for part in (0, 1)]
    for samples in parts:
        pixels = samples.x.read
        samples.x.read = lambda numbers, pixels=pixels: (read.append(numbers), pixels(numbers))[1]
    first, second = (samples.batch(4) for samples in parts)  # two are left
    assert [len(numbers) for numbers in read] == [2, 0]
    assert first.inputs.shape == second.inputs.shape == (2, 1, 2, 3)
    assert (first.inputs[:, 0, 0, 0] * 255 / 40).round().long().remainder(2).equal(first.targets)
    assert second.targets.tolist() == [helpers.NONE] * 2
    assert (first.samples, second.samples, first.counted) == (2, 2, 2)
