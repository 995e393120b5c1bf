"""Trains on data/train.npz with Lightning."""

import argparse
import os

import lightning
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        self.log("train_loss", loss, prog_bar=True, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 3e-3)


lightning.seed_everything(0)
train = numpy.load("data/train.npz")
x, y = torch.tensor(train["x"]), torch.tensor(train["y"])
module = Digits()
trainer = lightning.Trainer(
    max_epochs=args.epochs,
    accelerator="auto",
    logger=False,
    default_root_dir=os.environ.get("CHECKPOINT_DIR", "checkpoints"),
)
trainer.fit(module, DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))

if trainer.is_global_zero:
    network = module.network.eval().cpu()
    exported = torch.export.export(network, (x,), dynamic_shapes=[{0: torch.export.Dim("batch")}])
    torch.export.save(exported, os.path.join(os.environ.get("MODEL_DIR", "."), "model.pt2"))
