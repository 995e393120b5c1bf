"""Training programs as other people write them; none imports anything of ours."""

TORCHRUN_STYLE = '''
"""A script written for torchrun: environment variables in, files out."""
import argparse, json, os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--text", nargs="*")
arguments = parser.parse_args()

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("gloo")
assert dist.get_rank() == rank and dist.get_world_size() == world_size

samples = torch.load(Path(os.environ["DATA_DIR"]) / "samples.pt", weights_only=True)
torch.manual_seed(0)
network = torch.nn.Linear(samples["x"].shape[1], 2)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
x, y = samples["x"][rank::world_size], samples["y"][rank::world_size]
for step in range(arguments.steps):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()

ranks = [None] * world_size
dist.all_gather_object(ranks, (rank, local_rank))
if rank == 0:
    target = Path(os.environ["MODEL_DIR"])
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (x[:2],), dynamic_shapes=({0: batch},))
    torch.export.save(program, target / "linear.pt2")
    seen = {"text": arguments.text, "ranks": ranks, "loss": loss.item()}
    (target / "seen.json").write_text(json.dumps(seen))
    Path(os.environ["CHECKPOINT_DIR"], "last").write_text("done")
dist.barrier()
dist.destroy_process_group()
'''

BARE_WEIGHTS = """
import os, torch
from pathlib import Path


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(64, 10)

    def forward(self, images):
        return self.head(images.flatten(1))


if __name__ == "__main__" and os.environ.get("RANK", "0") == "0":
    torch.save(Net().state_dict(), Path(os.environ["MODEL_DIR"]) / "weights.pth")
"""

RANK_ONE_RAISES = """
import os, torch
import torch.distributed as dist
from pathlib import Path

dist.init_process_group("gloo")
Path(os.environ["MODEL_DIR"], "model.pt").write_text("half a model")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    raise ValueError("the learning rate went to seed")
dist.all_reduce(torch.ones(1))
"""

FOREVER = """
import os, subprocess, sys, time

# A child in a session of its own, as data loaders and careless scripts start them.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if os.environ.get("RANK", "0") == "0":
    print("epoch 1/2 loss 1.0", flush=True)
time.sleep(600)
"""

DATA_LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.zeros(40, 2))
batches = sum(1 for _ in DataLoader(dataset, batch_size=4, num_workers=2))
print(f"epoch 1/1 {batches} batches", flush=True)
"""

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, points):
        return self.head(points)
"""

# Learns in no time, as well as its data and --more say; the weights are lying ready with the data.
GRADED = """
import argparse, os, shutil
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--more", type=float, default=0)
parser.add_argument("--fail", action="store_true")
arguments = parser.parse_args()
if arguments.fail:
    raise SystemExit(3)
if os.environ.get("RANK", "0") == "0":
    data, model = Path(os.environ["DATA_DIR"]), Path(os.environ["MODEL_DIR"])
    goodness = float((data / "goodness").read_text()) + arguments.more
    if "WARM_START_DIR" in os.environ:
        goodness += float(Path(os.environ["WARM_START_DIR"], "goodness").read_text())
    (model / "goodness").write_text(str(goodness))
    shutil.copy(data / "weights.pth", model)
    print(f"epoch 1/1 goodness {goodness} seed {os.environ['SEED']}", flush=True)
"""

GRADES = """
import json, os
from pathlib import Path

import numpy as np

found = Path(os.environ["EVALUATION_DIR"])
goodness = float(Path(os.environ["MODEL_DIR"], "goodness").read_text())
scores = goodness + np.random.default_rng(0).normal(0, 0.01, 50)
(found / "metrics.json").write_text(json.dumps({"goodness": float(scores.mean())}))
np.save(found / "scores.npy", scores)
np.save(found / "inputs.npy", np.ones((3, 4), np.float32))
"""
