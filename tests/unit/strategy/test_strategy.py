"""trireme strategy: published figures, and what the command says."""

import json
import math
from dataclasses import replace

import pytest

from trireme.errors import InputError
from trireme.strategy import choose, reading
from trireme.strategy.communication import Group, Machines, bubble, group, step
from trireme.strategy.memory import (
    Memory,
    Mesh,
    Recipe,
    Work,
    block_activations,
    of_most,
    of_stage,
    recipe,
    states,
)
from trireme.strategy.model import Transformer, llama, of_size

HALF = Recipe(weights=2, gradients=2, optimizer=12, compute=2)  # as ZeRO and Megatron-LM count


def gpt(layers, width, heads, vocabulary=51200, fused=False):
    """Returns a network of Megatron-LM's papers, with 2048 positions."""
    sizes = (layers, width, heads, vocabulary, 4 * width, width, width, heads)
    return Transformer(*sizes, gated=False, positions=2048, fused=fused)


@pytest.mark.parametrize(
    ("processes", "optimizer", "gradients", "weights"),
    [(1, 120, 120, 120), (4, 52.5, 41.3, 30), (16, 35.6, 21.6, 7.5), (64, 31.4, 16.6, 1.88)],
)
def test_states_are_those_of_table_1_of_the_zero_paper(processes, optimizer, gradients, weights):
    n = processes
    for shards, said in {
        (1, 1, n): optimizer,
        (1, n, n): gradients,
        (n, n, n): weights,
    }.items():
        assert sum(states(7.5e9, HALF, shards)) / 1e9 == pytest.approx(said, abs=0.051)


@pytest.mark.parametrize(
    ("billions", "layers", "width", "heads"),
    [
        (1.7, 24, 2304, 24),
        (18.4, 40, 6144, 48),
        (145.6, 80, 12288, 96),
        (529.6, 105, 20480, 128),
        (1008.0, 128, 25600, 160),
    ],
)
def test_parameters_are_those_of_table_1_of_the_megatron_paper(billions, layers, width, heads):
    assert gpt(layers, width, heads).parameters / 1e9 == pytest.approx(billions, abs=0.051)


@pytest.mark.parametrize(
    ("model", "scores", "saved"), [(gpt(96, 12288, 96), 80, 0.70), (gpt(105, 20480, 128), 64, 0.65)]
)
def test_activations_of_gpt_3_and_mt_nlg_are_those_of_the_megatron_paper(model, scores, saved):
    of = {
        fused: block_activations(gpt(1, model.width, model.heads, fused=fused), HALF, Mesh(), 2048)
        for fused in (False, True)
    }
    assert of[False] == (34 + scores) * model.width
    assert 1 - of[True] / of[False] == pytest.approx(saved, abs=0.005)


def test_gpt_3_takes_the_34_days_of_the_megatron_paper():
    machines = Machines(128, 8, 80e9, flops=140e12, link=300e9, network=200e9)
    work = Work(2048, samples=1, parts=64, recompute=True)
    model = gpt(96, 12288, 96)
    taken = step(model, HALF, Mesh(dp=1024), work, machines, Memory(0, 0, 0, 0, 0))
    days = 300e9 / (2048 * 64 * 1024) * taken.compute / 86400
    assert days == pytest.approx(34, rel=0.05)


def test_a_ring_takes_as_long_as_nccl_tests_say():
    ring = Group(8, bandwidth=100e9, latency=0.0)
    assert ring.all_reduce(1e9) == pytest.approx(1e9 / 100e9 * 2 * 7 / 8)
    assert ring.gather(1e9) == pytest.approx(1e9 / 100e9 * 7 / 8)
    assert Group(8, 100e9, 1e-5).all_reduce(0) == pytest.approx(6e-5)  # up a tree, and down
    assert Group(8, 100e9, 1e-5).gather(1e9, 3) == pytest.approx(ring.gather(1e9) + 3 * 7e-5)
    assert Group(1, 1.0, 1.0).all_reduce(1e9) == 0
    assert bubble(8, 64) == pytest.approx(7 / 64)


@pytest.mark.parametrize("sharded", [False, True])
def test_each_block_or_bucket_waits_for_its_own_messages(sharded):
    model, kept, machines = llama(32, 4096, 32, 32000), HALF, h100(nodes=128)
    mesh, work = Mesh(dp=1024, sharded=sharded), Work(2048, samples=1)
    held = of_most(model, kept, mesh, work)
    found = step(model, kept, mesh, work, replace(machines, network=1e18, link=1e18), held)
    if sharded:  # seconds of latency for a message that goes around a ring
        expected = 3 * 32 * 1023 * 20e-6 - found.compute
    else:  # up a tree and down
        buckets = math.ceil(2 * model.parameters / 25 / 2**20)
        expected = 2 * buckets * 10 * 20e-6 - 2 / 3 * found.compute
    assert found.waiting == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("size", "stride", "bandwidth"),
    [
        (8, 1, 450e9),  # inside of a node
        (16, 1, 50e9),  # one group has all of the network
        (2, 8, 50e9 / 8),  # eight share it
        (4, 4, 50e9 / 4),  # two of each node
    ],
)
def test_groups_that_cross_nodes_share_the_network(size, stride, bandwidth):
    machines = Machines(2, 8, 80e9, 400e12, link=450e9, network=50e9)
    assert group(machines, size, stride).bandwidth == bandwidth


def test_what_one_strategy_divides_another_does_not():
    model, kept, work = llama(32, 4096, 32, 32000), recipe("bf16", "adamw", True), Work(2048, 1)
    parameters = model.parameters

    def held(parts=1, stage=0, **mesh):
        at_once = Work(2048, 1, parts)
        return of_stage(model, kept, Mesh(**mesh), at_once, stage)

    assert held().weights == 4 * parameters
    assert held(dp=8).weights == 4 * parameters
    assert held(dp=8).gradients == 2 * held().gradients  # and the buckets that are sent
    assert held(dp=8, sharded=True).optimizer == parameters
    assert held(tp=8).weights == pytest.approx(4 * parameters / 8, rel=0.01)
    stages = [held(parts=8, pp=4, stage=stage) for stage in range(4)]
    twice = 4 * model.embedding  # the first and the last stage have it
    assert sum(each.weights for each in stages) == 4 * parameters + twice
    assert stages[0].activations == pytest.approx(4 * stages[3].activations, rel=0.02)
    saved = of_stage(model, kept, Mesh(), work.recomputed(), 0).activations
    assert saved < held().activations / 9


@pytest.mark.parametrize(("layers", "stages"), [(8, 4), (34, 16), (15, 8), (7, 6), (3, 3)])
def test_the_stage_that_needs_most_is_found(layers, stages):
    model, kept, mesh = llama(layers, 512, 8, 256), recipe("fp32", "adam", True), Mesh(pp=stages)
    for parts in (stages, 4 * stages):
        work = Work(512, 4, parts)
        peaks = [of_stage(model, kept, mesh, work, stage).peak for stage in range(stages)]
        assert of_most(model, kept, mesh, work).peak == max(peaks)


@pytest.mark.parametrize("parameters", [1e6, 25e6, 1.3e9, 7e9, 70e9, 1e12])
def test_a_number_of_parameters_becomes_a_network_of_about_so_many(parameters):
    assert of_size(round(parameters)).parameters == pytest.approx(parameters, rel=0.15)


LLAMA_3 = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
GPT_2 = {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}
QWEN_3 = LLAMA_3 | {
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(LLAMA_3, 8030261248), (GPT_2, 124439808), ({"text_config": QWEN_3}, 596049920)],
)
def test_a_configuration_of_hugging_face_has_the_parameters_of_its_model(
    tmp_path, config, parameters
):
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = reading.model(str(tmp_path))
    assert found.parameters == pytest.approx(parameters, rel=1e-4)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"text_config": [1]}', "cannot be read"),
        ('{"n_layer": 1, "n_layer": 2}', "cannot be read: 'n_layer' is given twice"),
        (json.dumps(LLAMA_3 | {"num_local_experts": 8}), "a mixture of experts cannot be"),
        (json.dumps(LLAMA_3 | {"vocab_size": "many"}), "vocab_size is 'many', not a number"),
        ("{}", "num_hidden_layers or n_layer or n_layers or num_layers is None"),
    ],
)
def test_a_configuration_that_says_too_little_is_refused(tmp_path, config, said):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=said):
        reading.model(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("7B", 7e9),
        ("7e9", 7e9),
        ("80GB", 80e9),
        ("80Gi", 80 * 2**30),
        ("400Gbit", 50e9),
        ("400Gbps", 50e9),
    ],
)
def test_amounts(text, amount):
    assert reading.amount("--memory", text) == amount


def h100(nodes=1, devices=8):
    return Machines(nodes, devices, 80e9, 0.4 * 989e12, 450e9, 400e9)


@pytest.mark.parametrize(
    ("parameters", "machines", "best"),
    [
        (1e9, h100(devices=1), "single"),
        (1e9, h100(), "ddp"),
        (7e9, h100(), "fsdp"),
        (70e9, h100(nodes=8), "hybrid"),
    ],
)
def test_the_simplest_that_fits_and_is_fast_is_the_best(parameters, machines, best):
    found = choose.choices(
        of_size(int(parameters)), recipe("bf16", "adamw", True), machines, 256, 2048
    )
    assert found[0].name == best
    assert found[0].memory.peak <= choose.USABLE * machines.memory
    assert [each.fits for each in found] == sorted((each.fits for each in found), reverse=True)
    fastest = min(each.step.seconds for each in found if each.fits)
    assert found[0].step.seconds <= choose.MARGIN * fastest
    for each in found:
        mesh, work = each.mesh, each.work
        assert mesh.pp * mesh.dp * mesh.tp == machines.world
        assert mesh.dp * work.samples * work.parts == 256


def test_tensor_parallelism_divides_whole_heads_of_keys_and_values(tmp_path):
    shared = LLAMA_3 | {"num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(shared))
    found = {mesh.tp for _, mesh in choose.meshes(reading.model(str(tmp_path)), h100())}
    assert found == {1, 2}


H100 = ("--device", "h100", "--devices", "8")


def test_the_command_says_what_to_put_into_a_job(trireme):
    status, output, _ = trireme("strategy", "7B", *H100, "--nodes", "2", "--network", "3200Gbit")
    assert status == 0
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line}
    assert {"fsdp", "ddp", "pp", "hybrid"} <= set(rows)
    assert "\nfsdp is the fastest that fits: ddp needs 156.7 GB of each device\n" in output
    assert "workers: 1\n  processes_per_worker: 8\n  gpu: 8" in output
    assert "args: --strategy fsdp --batch-size 256 --micro-batch" in output
    assert "strategy: none: each of tf.distribute has all of the model" in output


@pytest.mark.parametrize(
    ("arguments", "strategy", "workers"),
    [
        (["1B", "--device", "h100"], "OneDeviceStrategy", 1),
        (["1B", *H100], "MirroredStrategy", 1),
        (["1B", *H100, "--nodes", "2", "--network", "3200Gbit"], "MultiWorkerMirroredStrategy", 2),
    ],
)
def test_the_command_names_tensorflows_strategy(trireme, arguments, strategy, workers):
    status, output, _ = trireme("strategy", *arguments)
    assert status == 0
    assert f"strategy: tf.distribute.{strategy}\n  framework: tensorflow" in output
    assert f"workers: {workers}\n  entrypoint: trainers/" in output


def test_parameter_servers_are_for_large_embeddings(trireme):
    large = ("--layers", "2", "--width", "128", "--heads", "2", "--vocabulary", "80000000")
    _, output, _ = trireme("strategy", *large, *H100, "--length", "8")
    assert "strategy: tf.distribute.ParameterServerStrategy: most is embeddings" in output
    assert "replicas: {chief: {}, ps: {}, worker: {count: 1}}" in output


def test_a_model_that_fits_nowhere_is_a_failure(trireme):
    status, output, _ = trireme("strategy", "1e12", *H100)
    assert status == 1
    assert "nothing fits into 72.0 GB of each device; " in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tiny", *H100], "MODEL 'tiny': has to be a number of parameters from 1e6 on"),
        (["7e9", "--layers", "2", *H100], "give either MODEL, or --layers, --width, --heads and"),
        ([*H100], "give either MODEL, or --layers"),
        (["7e9"], "give --memory and --flops, or --device: a100-40gb, a100"),
        (["7e9", *H100, "--nodes", "2"], "give --network"),
        (["7e9", "--device", "h1000"], "--device 'h1000': has to be one of a100-40gb"),
        (["7e9", *H100, "--memory", "much"], "--memory 'much': has to be a number above 0"),
        (["7e9", *H100, "--precision", "fp8"], "--precision 'fp8': has to be one of bf16, fp32"),
        (
            ["7e9", *H100, "--nodes", "2", "--network", "25Gbit", "--batch-size", "1"],
            "--batch-size 1: 16 devices cannot divide it",
        ),
        (["7e9", *H100, "--optimizer", "lion"], "--optimizer 'lion': has to be one of sgd"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_a_sentence(trireme, arguments, said):
    status, output, error = trireme("strategy", *arguments)
    assert (status, output) == (2, "")
    assert error.startswith(f"error: {said}")
    assert len(error.splitlines()) == 1
