"""Trains a convolutional network on data/train/CLASS/*.png."""

import argparse
import os
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()

torch.manual_seed(0)
classes = sorted(folder.name for folder in Path("data/train").iterdir())
files = sorted(Path("data/train").glob("*/*.png"))
pictures = numpy.stack([numpy.asarray(Image.open(file)) for file in files])
x = torch.tensor(pictures, dtype=torch.float32)[:, None] / 255
y = torch.tensor([classes.index(file.parent.name) for file in files])

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 4 * 4, len(classes)),
)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for epoch in range(1, args.epochs + 1):
    total = 0.0
    for batch in torch.randperm(len(x)).split(args.batch_size):
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    print(f"Epoch [{epoch}/{args.epochs}], Loss: {total / len(x):.4f}")

model.eval()
exported = torch.export.export(model, (x,), dynamic_shapes=[{0: torch.export.Dim("batch")}])
torch.export.save(exported, os.path.join(os.environ.get("MODEL_DIR", "."), "model.pt2"))
