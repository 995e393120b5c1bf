"""Writes data/train.npz and data/test.npz: hand-written digits of 8 by 8 points."""

from pathlib import Path

import numpy
from sklearn.datasets import load_digits

digits = load_digits()
x, y = (digits.data / 16).astype("float32"), digits.target
test = numpy.arange(len(x)) % 4 == 0
Path("data").mkdir(exist_ok=True)
numpy.savez("data/train.npz", x=x[~test], y=y[~test])
numpy.savez("data/test.npz", x=x[test], y=y[test])
print(f"{sum(~test)} digits to train with, {sum(test)} to test with")
