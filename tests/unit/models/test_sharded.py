"""trireme/models/sharded.py: the parts of sharded checkpoints become one model."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from malicious import Malicious
from torch import nn
from torch.distributed.checkpoint.metadata import BytesStorageMetadata

from trireme.models import comparison
from trireme.models.load import load_model
from trireme.models.trained import NotLoadable

NETWORK = """
import torch
from torch import nn

class Deep(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(self.norm(self.first(x).relu()))

def narrow():
    return Deep(5)

def headless():
    network = Deep()
    del network.last
    return network
"""

STEP = """
def step(network, x):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    network(x).square().mean().backward()
    optimizer.step()
    return optimizer
"""

PROGRAM = f"""
import os, sys
directory, rank = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, directory + "/code")
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module
)
from deep_network import Deep
{STEP}
dist.init_process_group(
    "gloo", init_method=f"file://{{directory}}/rendezvous", rank=rank, world_size=2
)
mesh = init_device_mesh("cpu", (2,))
x = torch.arange(20.0).reshape(5, 4) / 10

network = Deep()
fully_shard(network.first, mesh=mesh)
fully_shard(network, mesh=mesh)
optimizer = step(network, x)
content = {{"model": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}}
dcp.save(content, checkpoint_id=directory + "/fsdp/model")

network = Deep()
plan = {{"first": ColwiseParallel(), "last": RowwiseParallel()}}
network.norm = torch.nn.Identity()
parallelize_module(network, mesh, plan)
dcp.save(network.state_dict(), checkpoint_id=directory + "/tensor")
dist.barrier()
os._exit(0)  # leaving gloo may take for ever
"""

X = torch.arange(20.0).reshape(5, 4) / 10
LOCAL = {"x": X, "torch": torch}
exec(STEP, LOCAL)


def write_code(directory):
    directory.mkdir()
    (directory / "deep_network.py").write_text(NETWORK)
    return directory


@pytest.fixture
def code(tmp_path):
    yield write_code(tmp_path / "code")
    sys.modules.pop("deep_network", None)


@pytest.fixture
def deep():
    """Makes the network, with other weights than the factory gives it."""
    namespace = {}
    exec(NETWORK, namespace)

    def make(**changes):
        network = namespace["Deep"](**changes)
        LOCAL["step"](network, X)
        return network.eval()

    return make


@pytest.fixture
def model(tmp_path):
    return tmp_path / "model-dir"


def save(content, directory) -> None:
    dcp.save(content, checkpoint_id=directory, no_dist=True)


def load(model, code, factory="deep_network:Deep"):
    return load_model(model, code, "train.py", factory)


def refusal(model, code, factory="deep_network:Deep") -> str:
    with pytest.raises(NotLoadable) as caught:
        load(model, code, factory)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What two processes have saved, each its own part."""
    directory = tmp_path_factory.mktemp("sharded")
    write_code(directory / "code")
    (directory / "train.py").write_text(PROGRAM)
    processes = [
        subprocess.Popen(
            [sys.executable, "train.py", str(directory), str(rank)],
            cwd=directory,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said
    yield directory
    sys.modules.pop("deep_network", None)


@pytest.mark.slow
def test_what_fsdp_has_saved_answers_as_the_unsharded_network(saved, deep):
    assert len(list((saved / "fsdp" / "model").glob("*.distcp"))) == 2
    loaded = load(saved / "fsdp", saved / "code")
    expected = deep()
    assert not loaded.network.training
    for name, value in expected.state_dict().items():
        assert torch.allclose(loaded.network.state_dict()[name], value, atol=1e-6), name
    assert np.allclose(loaded.predict(X.numpy()), expected(X).detach().numpy(), atol=1e-5)


@pytest.mark.slow
def test_what_tensor_parallelism_has_saved_is_put_together(saved):
    (saved / "code" / "tensor_network.py").write_text(
        "import torch, deep_network\n"
        "def make():\n"
        "    network = deep_network.Deep()\n"
        "    network.norm = torch.nn.Identity()\n"
        "    torch.nn.init.zeros_(network.first.weight)\n"
        "    return network\n"
    )
    loaded = load(saved / "tensor", saved / "code", "tensor_network:make")
    namespace = {}
    exec(NETWORK, namespace)
    expected = namespace["Deep"]()
    assert torch.equal(loaded.network.first.weight, expected.first.weight)
    assert torch.equal(loaded.network.last.weight, expected.last.weight)


@pytest.mark.parametrize("keys", [(), ("model",), ("state_dict",), ("app", "model"), ("module",)])
def test_the_model_is_found_in_what_is_saved(model, code, deep, keys):
    content = deep().state_dict()
    for key in reversed(keys):
        content = {key: content}
    save(content, model)
    assert np.array_equal(load(model, code).predict(X.numpy()), deep()(X).detach().numpy())


def test_of_two_networks_the_one_called_model_is_taken(model, code, deep):
    other = {name: value * 0 for name, value in deep().state_dict().items()}
    save({"ema": other, "model": deep().state_dict()}, model)
    assert np.array_equal(load(model, code).predict(X.numpy()), deep()(X).detach().numpy())


def test_of_two_others_none_is_taken(model, code, deep):
    save({"ema": deep().state_dict(), "net": deep().state_dict()}, model)
    said = refusal(model, code)
    assert said.endswith("it holds several such networks, below ema., net.")


def test_it_needs_a_factory(model, code, deep):
    save(deep().state_dict(), model)
    assert "give model_factory=module:callable" in refusal(model, code, "")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("narrow", "model.first.weight is (6, 4), the network's is (5, 4)"),
        ("headless", "the network has no last.bias"),
    ],
)
def test_another_network_is_refused(model, code, deep, factory, said):
    save({"model": deep().state_dict()}, model)
    found = refusal(model, code, f"deep_network:{factory}")
    assert f"does not fit deep_network:{factory}: " in found
    assert said in found


def test_a_checkpoint_of_something_else_is_refused(model, code):
    save({"model": nn.Linear(2, 2).state_dict()}, model)
    assert "it has no first.bias; it holds model.bias, model.weight" in refusal(model, code)


def test_a_part_of_the_network_is_refused(model, code, deep):
    state = deep().state_dict()
    del state["last.weight"]
    save({"model": state}, model)
    assert "it has no model.last.weight; it holds " in refusal(model, code)


def test_a_missing_part_is_refused(model, code, deep):
    save(deep().state_dict(), model)
    for file in model.glob("*.distcp"):
        file.unlink()
    assert "model-dir cannot be read: " in refusal(model, code)


def test_a_tensor_of_which_the_metadata_lacks_a_piece_is_refused(model, code, deep):
    save(deep().state_dict(), model)
    content = pickle.loads((model / ".metadata").read_bytes())
    content.state_dict_metadata["last.weight"].chunks.clear()
    (model / ".metadata").write_bytes(pickle.dumps(content))
    assert "it does not have all of last.weight" in refusal(model, code)


@pytest.mark.parametrize("nested", [False, True])
def test_malicious_metadata_is_refused_and_does_not_run(model, code, deep, tmp_path, nested):
    save(deep().state_dict(), model)
    content = Malicious(tmp_path / "ran")
    if nested:
        content = pickle.loads((model / ".metadata").read_bytes())
        content.planner_data = {"x": Malicious(tmp_path / "ran")}
    (model / ".metadata").write_bytes(pickle.dumps(content))
    assert "posix.system has no place in it, and is not executed" in refusal(model, code)
    assert not (tmp_path / "ran").exists()


def test_values_that_torch_would_unpickle_are_left_alone(model, code, deep, tmp_path):
    save({"model": deep().state_dict(), "epoch": Malicious(tmp_path / "ran")}, model)
    load(model, code)
    assert not (tmp_path / "ran").exists()
    content = pickle.loads((model / ".metadata").read_bytes())
    content.state_dict_metadata["model.first.bias"] = BytesStorageMetadata()
    (model / ".metadata").write_bytes(pickle.dumps(content))
    assert "it has no first.bias; it holds " in refusal(model, code)


def test_a_malicious_part_is_refused_and_does_not_run(model, code, deep, tmp_path):
    save(deep().state_dict(), model)
    (file,) = model.glob("*.distcp")
    torch.save(Malicious(tmp_path / "ran"), file)
    content = pickle.loads((model / ".metadata").read_bytes())
    for place in content.storage_data.values():
        place.offset, place.length = 0, file.stat().st_size
    (model / ".metadata").write_bytes(pickle.dumps(content))
    assert "model-dir cannot be read: " in refusal(model, code)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("elsewhere", ["../other.distcp", "/etc/passwd"])
def test_parts_elsewhere_are_refused(model, code, deep, elsewhere):
    save(deep().state_dict(), model)
    content = pickle.loads((model / ".metadata").read_bytes())
    next(iter(content.storage_data.values())).relative_path = elsewhere
    (model / ".metadata").write_bytes(pickle.dumps(content))
    assert f"{elsewhere} is not beside it" in refusal(model, code)


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps({})])
def test_what_is_no_metadata_is_refused(model, code, content):
    model.mkdir()
    (model / ".metadata").write_bytes(content)
    (model / "__0_0.distcp").write_bytes(b"")
    assert ".metadata is not the metadata of a sharded checkpoint: " in refusal(model, code)


def test_the_same_weights_in_other_shards_are_the_same(model, deep, tmp_path):
    before = deep().state_dict()
    after = {name: before[name].clone() for name in reversed(before)}
    save(before, model)
    save(after, tmp_path / "again")
    assert (model / ".metadata").read_bytes() != (tmp_path / "again" / ".metadata").read_bytes()
    assert comparison.compare(model, tmp_path / "again").identical
    after["first.bias"] = after["first.bias"] + 1
    save(after, tmp_path / "other")
    assert comparison.compare(model, tmp_path / "other").largest.name == ".metadata first.bias"
