"""Trains boosted trees on data/train.npz."""

import argparse
import os

import numpy
import xgboost

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=40)
parser.add_argument("--depth", type=int, default=4)
args = parser.parse_args()

train = numpy.load("data/train.npz")
data = xgboost.DMatrix(train["x"], train["y"])
parameters = {
    "objective": "multi:softmax",
    "num_class": 10,
    "max_depth": args.depth,
    "eta": 0.3,
    "seed": 0,
}
model = xgboost.train(parameters, data, args.rounds, evals=[(data, "train")])
model.save_model(os.path.join(os.environ.get("MODEL_DIR", "."), "model.ubj"))
