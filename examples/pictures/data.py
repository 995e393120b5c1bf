"""Writes data/train/CLASS/*.png and data/test/CLASS/*.png: hand-written digits of 8 by 8 points."""

from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits()
for number, (points, label) in enumerate(zip(digits.images, digits.target, strict=True)):
    part = "test" if number % 4 == 0 else "train"
    folder = Path("data") / part / str(label)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((points * 15).astype("uint8")).save(folder / f"{number:04}.png")
print(f"{number + 1} pictures in data")
