"""``trireme job advise``: of real programs, it names what really holds each of them up."""

import re

import pytest

pytestmark = pytest.mark.slow

TORCH = """
import os, sys, time
import torch, torch.distributed as dist
from torch import nn

kind = sys.argv[1]
if is_distributed := "RANK" in os.environ:
    dist.init_process_group("gloo")
if kind == "communication":  # gradients as large as a table of which a few rows are used
    network, size = nn.EmbeddingBag(400_000, 64), 4
else:
    network, size = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]), 256
    if kind == "data":
        size = 4
model = network
if is_distributed:
    model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
# Of a large table already its update would take as long as its gradients are under way.
learnt = [nn.Parameter(torch.zeros(1))] if kind == "communication" else network.parameters()
optimizer = torch.optim.SGD(learnt, lr=0.001)

class Dataset(torch.utils.data.Dataset):
    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        if kind == "data":
            time.sleep(0.05)
        return torch.zeros(2, dtype=torch.int64) if kind == "communication" else torch.ones(512)

one = next(iter(torch.utils.data.DataLoader(Dataset(), batch_size=size)))
loader = torch.utils.data.DataLoader(Dataset(), batch_size=size)
for batch in loader if kind == "data" else iter(lambda: one, None):
    optimizer.zero_grad(set_to_none=False)
    model(batch).sum().backward()
    optimizer.step()
"""
KERAS = """
import time
import numpy as np
import keras
import tensorflow as tf

def samples():
    while True:
        time.sleep(0.05)
        yield np.zeros(8, "float32"), np.zeros(1, "float32")

shapes = tf.TensorSpec((8,)), tf.TensorSpec((1,))
data = tf.data.Dataset.from_generator(samples, output_signature=shapes).batch(4)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, steps_per_epoch=10**6, verbose=0)
"""
OPTIMIZER = """
import resource
import torch

weights = torch.nn.Parameter(torch.zeros(64 << 20))
weights.grad = torch.ones_like(weights)
optimizer = torch.optim.Adam([weights])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)  # as if that were the memory
optimizer.step()
"""


def advise(trireme, program, job):
    (trireme.home / "train.py").write_text(program)
    (trireme.home / "job.yaml").write_text(f"entrypoint: train.py\nmemory: 64Gi\n{job}")
    done = trireme.run("job", "advise", "job.yaml", "--seconds", "6")
    assert done.returncode == 0, done.stderr
    assert list((trireme.home / "jobs").iterdir()) == []  # it leaves nothing
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("data", r"waits for its data (?P<share>\d+)% .* args: --num-workers \d+"),
        ("communication", r"communication takes (?P<share>\d+)% .* accumulate the gradients of"),
        ("compute", r"bound by compute, (?P<share>\d+)% of the time"),
    ],
)
def test_what_holds_up_pytorch_is_named(trireme, kind, said):
    # Replicas that share a busy machine's processors wait for each other even if they only compute.
    job = f"workers: {0 if kind == 'compute' else 1}\nargs: [{kind}, --num-workers, '0']\n"
    for _ in range(3):
        text = advise(trireme, TORCH, job)
        if found := re.search(said, text):
            break  # else other tests have kept the machine busy
    assert f"bound by {kind}, " in text, text
    assert found and int(found["share"]) >= 20, text
    others = {"waits for its data", "communication takes"} - {found[0][: len("waits for its data")]}
    if kind == "compute":
        assert not any(other in text for other in others), text
    who = "master" if kind == "compute" else "each replica"
    assert f"- {who} had at most 0." in text and "of its 64Gi of memory: memory: 1Gi" in text


def test_a_slow_generator_of_tensorflow_is_named(trireme):
    text = advise(trireme, KERAS, "framework: tensorflow\nworkers: 1\n")
    assert "bound by data, " in text and "from_generator runs in one thread" in text, text


def test_a_program_that_trains_nothing_is_told_so(trireme):
    (trireme.home / "train.py").write_text("print('hello')\n")
    (trireme.home / "job.yaml").write_text("entrypoint: train.py\n")
    done = trireme.run("job", "advise", "job.yaml")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "error: nothing could be measured before the job ended: no step of a training was seen\n"
    )


def test_an_optimizer_that_does_not_fit_is_to_be_divided(trireme):
    (trireme.home / "train.py").write_text(OPTIMIZER)
    (trireme.home / "job.yaml").write_text("entrypoint: train.py\nworkers: 1\n")
    done = trireme.run("job", "submit", "job.yaml", "--local")
    assert done.returncode == 1
    assert "advice: memory was used up in the optimizer, whose state each of the 2 " in done.stderr
    assert "fully_shard" in done.stderr
