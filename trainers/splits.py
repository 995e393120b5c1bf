"""The samples of a dataset's split, whichever form its files have; to be copied with programs.

    train.npz                    arrays x and y
    train/x.npy, train/y.npy     the same; they may be larger than the memory
    train-images-idx3-ubyte, train-labels-idx1-ubyte
                                 MNIST's files (of the split test: t10k-...), also with .gz
    train/CLASS/*.png            and other pictures, a folder for each class

Classes have the numbers of their folders' names in sorted order. All pictures are made as the first
one of ``train`` is, in that order: grey where it is, else in colours, and of its size. Pictures
are arrays of numbers from 0 to 1, (samples, channels, height, width).
"""

import gzip
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Refuse = Callable[[str], BaseException]

MNIST = {"train": "train", "test": "t10k"}
"""What its files of a split begin with: http://yann.lecun.com/exdb/mnist/"""

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
GREY = ("1", "L")  # modes of Pillow; the others have colours

BROKEN = (
    *(KeyError, ValueError, OSError, EOFError, AttributeError, TypeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""What reading a file raises that is cut off, or holds something else than its name says."""


class Pictures:
    """Pictures of shape (samples, channels, height, width), read when they are asked for."""

    dtype = np.dtype(np.float32)
    ndim = 4

    def __init__(self, shape: tuple[int, ...], read: Callable[[np.ndarray], np.ndarray]) -> None:
        self.shape, self.read = shape, read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        numbers = np.arange(len(self))[index]
        pixels = self.read(numbers.reshape(-1)).astype(self.dtype) / 255
        return pixels.reshape(*numbers.shape, *self.shape[1:])


def load(data: Path, split: str, refuse: Refuse) -> tuple[Any, np.ndarray]:
    """Returns what samples there are, an array or ``Pictures``, and what is true of each.

    Args:
        data: The dataset's folder.
        split: Which split: ``train``, ``test`` or another.
        refuse: Makes an exception of a sentence that says why the files cannot be used.
    """
    try:
        if (archive := data / f"{split}.npz").exists():
            with np.load(archive) as arrays:
                return arrays["x"], arrays["y"]
        if (data / split / "x.npy").exists():
            x, y = (np.load(data / split / f"{name}.npy", "r") for name in "xy")
            return x, y
        if files := _mnist_files(data, split):
            return _mnist(*files, refuse)
        if classes(data, split):
            return _folders(data, split, refuse)
    except BROKEN as error:
        raise refuse(f"the samples for {split} cannot be read: {error}") from None
    raise refuse(
        f"{data} has no {split}.npz, nor {split}/x.npy and {split}/y.npy, nor MNIST's files, nor a "
        f"folder of pictures for each class in {split}"
    )


def image_problem(x: Any, y: np.ndarray) -> str:
    """Returns why an image classifier cannot learn from samples; nothing if it can."""
    images = x.ndim == 4 and x.dtype == np.float32 and 0 not in x.shape
    if not (images and y.shape == x.shape[:1] and y.dtype.kind in "iu"):
        return (
            "x has to be float32 (samples, channels, height, width), and y whole numbers "
            f"(samples); they are {x.dtype} {x.shape} and {y.dtype} {y.shape}"
        )
    return f"y has a class {y.min()}; they count from 0" if y.min() < 0 else ""


def has_split(data: Path, split: str) -> bool:
    """Tells whether a dataset seems to have a split in a known form."""
    files = (f"{split}.npz", f"{split}/x.npy", f"{split}/y.npy")
    has_files = any((data / name).exists() for name in files)
    return has_files or bool(_mnist_files(data, split) or classes(data, split))


def classes(data: Path, split: str) -> list[str]:
    """Returns the names of the folders of a split that hold pictures."""
    folders = (data / split).glob("[!.]*")
    return sorted(folder.name for folder in folders if any(_pictures(folder)))


def _mnist_files(data: Path, split: str) -> tuple[Path, Path] | None:
    start = data / MNIST.get(split, split)
    for end in ("ubyte", "ubyte.gz"):
        images, labels = Path(f"{start}-images-idx3-{end}"), Path(f"{start}-labels-idx1-{end}")
        if images.exists() and labels.exists():
            return images, labels
    return None


def _mnist(images: Path, labels: Path, refuse: Refuse) -> tuple[Pictures, np.ndarray]:
    x, y = (_idx(file, dimensions) for file, dimensions in ((images, 3), (labels, 1)))
    if len(x) != len(y):
        raise refuse(f"{images.name} has {len(x)} images, and {labels.name} {len(y)} labels")
    x = x[:, None]
    return Pictures(x.shape, x.__getitem__), y.astype(np.int64)


def _idx(file: Path, dimensions: int) -> np.ndarray:
    """Returns the bytes of an IDX file, as its head says how they are arranged."""
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    start = 4 + 4 * dimensions
    shape = np.frombuffer(content[4:start], ">i4")
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) - start != math.prod(shape):
        raise ValueError(
            f"{file.name} is not a complete IDX file of bytes with {dimensions} dimensions"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _pictures(folder: Path) -> Iterator[Path]:
    return (file for file in folder.glob("[!.]*") if file.suffix.lower() in SUFFIXES)


def _folders(data: Path, split: str, refuse: Refuse) -> tuple[Pictures, np.ndarray]:
    example = "train" if classes(data, "train") else split
    names = classes(data, example)
    if unknown := set(classes(data, split)) - set(names):
        raise refuse(f"{data / split / min(unknown)} is a class that train does not have")
    by_class = [sorted(_pictures(data / split / name)) for name in names]
    labels = np.repeat(np.arange(len(names)), [len(files) for files in by_class])
    first = _pixels(min(_pictures(data / example / names[0])), refuse)
    files = [file for some in by_class for file in some]

    def read(numbers: np.ndarray) -> np.ndarray:
        array = np.empty((len(numbers), *first.shape), np.uint8)
        for position, number in enumerate(numbers):
            array[position] = _pixels(files[number], refuse, like=first)
        return array

    return Pictures((len(files), *first.shape), read), labels


def _pixels(file: Path, refuse: Refuse, like: np.ndarray | None = None) -> np.ndarray:
    """Returns a picture, (channels, height, width), in the form of another or in its own."""
    from PIL import Image

    try:
        with Image.open(file) as opened:
            picture: Image.Image = opened
            if picture.mode.startswith("I;16"):  # Pillow would cut off all that is above 255
                picture = Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
            elif picture.mode in ("I", "F"):
                raise refuse(f"the picture {file} has 32 bits a pixel; make it one of 8 or 16")
            if like is None:
                converted = picture.convert("L" if picture.mode in GREY else "RGB")
            else:
                converted = picture.convert("L" if len(like) == 1 else "RGB")
                converted = converted.resize(
                    (like.shape[2], like.shape[1]), Image.Resampling.BILINEAR
                )
    except (*BROKEN, SyntaxError, Image.DecompressionBombError) as error:
        raise refuse(f"the picture {file} cannot be read: {error}") from None
    return np.atleast_3d(np.asarray(converted)).transpose(2, 0, 1)
