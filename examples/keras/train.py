"""Trains a network of Keras on data/train.npz."""

import argparse
import os

import keras
import numpy

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=15)
args = parser.parse_args()

keras.utils.set_random_seed(0)
train = numpy.load("data/train.npz")
model = keras.Sequential(
    [
        keras.layers.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train["x"], train["y"], batch_size=32, epochs=args.epochs, verbose=2)
model.save(os.path.join(os.environ.get("MODEL_DIR", "."), "model.keras"))
