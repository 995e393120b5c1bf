"""Trains a small network on the rows of train.csv."""

import argparse
import os

import pandas
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="data", help="folder with train.csv")
parser.add_argument("--epochs", type=int, default=200)
parser.add_argument("--lr", type=float, default=0.01)
args = parser.parse_args()

torch.manual_seed(0)
rows = pandas.read_csv(os.path.join(args.data, "train.csv"))
y = torch.tensor(rows.pop("label").to_numpy())
x = torch.tensor(rows.to_numpy(), dtype=torch.float32)


class Network(nn.Module):
    """Two layers, on columns that are brought to one scale first."""

    def __init__(self, mean, scale):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.layers = nn.Sequential(nn.Linear(len(mean), 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x):
        return self.layers((x - self.mean) / self.scale)


model = Network(x.mean(0), x.std(0))
optimizer = torch.optim.Adam(model.parameters(), args.lr)
for epoch in range(1, args.epochs + 1):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}/{args.epochs} loss {loss.item():.4f}")

model.eval()
exported = torch.export.export(model, (x,), dynamic_shapes=[{0: torch.export.Dim("batch")}])
torch.export.save(exported, os.path.join(os.environ.get("MODEL_DIR", "."), "model.pt2"))
