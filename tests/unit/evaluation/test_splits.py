"""splits.py of the trainers: the forms of samples that programs and the evaluation read."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trireme.evaluation.held_out import held_out
from trireme.evaluation.kinds import class_names
from trireme.models.trained import NotLoadable
from trireme.trainers import splits


def idx(array):
    """Returns an IDX file, as http://yann.lecun.com/exdb/mnist/ describes it."""
    head = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape)
    return head + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    """MNIST's files for training, plain, and for the test, with .gz; returns images and labels."""
    draw = np.random.default_rng(0)
    made = {}
    for split, name, count in (("train", "train", 7), ("test", "t10k", 3)):
        images = draw.integers(0, 256, (count, 5, 4), np.uint8)
        labels = draw.integers(0, 10, count).astype(np.uint8)
        made[split] = images, labels
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx(array)
            file = tmp_path / f"{name}-{kind}-ubyte"
            if split == "test":
                file, content = Path(f"{file}.gz"), gzip.compress(content)
            file.write_bytes(content)
    return made


@pytest.mark.parametrize("split", ["train", "test"])
def test_mnist(mnist, tmp_path, split):
    images, labels = mnist[split]
    assert splits.has_split(tmp_path, split)
    assert not splits.has_split(tmp_path, "validation")
    x, y = splits.load(tmp_path, split, ValueError)
    assert (x.shape, x.dtype, len(x)) == ((len(images), 1, 5, 4), np.float32, len(images))
    assert y.tolist() == labels.tolist()
    whole = images[:, None].astype(np.float32) / 255
    for index in (slice(None), slice(1, 3), [2, 0], 1, []):
        assert np.array_equal(x[index], whole[index])


@pytest.fixture
def pictures(tmp_path):
    """Pictures in folders: the first is grey and 4 wide, 3 high."""
    made = {
        "train/bird/1.png": ("L", (4, 3), 51),
        "train/bird/2.JPG": ("RGB", (8, 9), (255, 255, 255)),
        "train/Cat/1.png": ("L", (4, 3), 0),
        "train/dog/1.gif": ("P", (4, 3), 0),
        "test/dog/1.png": ("RGBA", (5, 5), (255, 255, 255, 255)),
    }
    for name, (mode, size, colour) in made.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(file)
    (tmp_path / "train" / "bird" / "notes.txt").write_text("no picture")
    (tmp_path / "train" / ".cache").mkdir()
    (tmp_path / "train" / ".cache" / "1.png").write_bytes(b"")
    return tmp_path


def test_folders_of_pictures(pictures):
    assert class_names(pictures) == ["Cat", "bird", "dog"]
    x, y = splits.load(pictures, "train", ValueError)
    assert (x.shape, y.tolist()) == ((4, 1, 3, 4), [0, 1, 1, 2])
    assert x[:].shape == x.shape
    assert np.allclose(x[[1, 2]].mean((1, 2, 3)), [0.2, 1], atol=0.01)


def test_of_the_test_they_are_as_those_of_the_training(pictures):
    inputs, labels = held_out(pictures)
    assert (inputs.shape, labels.tolist()) == ((1, 1, 3, 4), [2])
    assert (inputs[0] == 1).all()
    assert inputs[:2].flags.writeable


def test_pictures_have_colours_where_the_first_one_has(pictures):
    Image.new("RGB", (2, 2), (255, 0, 0)).save(pictures / "train" / "Cat" / "0.bmp")
    x, _ = splits.load(pictures, "train", ValueError)
    assert x.shape == (5, 3, 2, 2)
    assert x[0][:, 0, 0].tolist() == [1, 0, 0]


def test_pictures_of_16_bits_keep_what_is_in_them(tmp_path):
    (tmp_path / "train" / "bone").mkdir(parents=True)
    values = np.array([[0, 1 << 8], [1 << 15, (1 << 16) - 1]], np.uint16)
    Image.fromarray(values).save(tmp_path / "train" / "bone" / "1.png")
    x, _ = splits.load(tmp_path, "train", ValueError)
    assert x.shape == (1, 1, 2, 2)
    assert np.allclose(x[0][0] * 255, [[0, 1], [128, 255]])


def test_pictures_of_more_bits_are_refused_by_name(tmp_path):
    (tmp_path / "train" / "bone").mkdir(parents=True)
    Image.new("F", (2, 2), 0.5).save(tmp_path / "train" / "bone" / "1.tiff")
    with pytest.raises(ValueError, match=r"1\.tiff has 32 bits a pixel"):
        splits.load(tmp_path, "train", ValueError)


def no_train(data):
    (data / "train").mkdir()
    (data / "train" / "1.png").write_bytes(b"")
    return r"has no train.npz, nor .*nor a folder of pictures for each class in train"


def two_counts(data):
    (data / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((3, 2, 2), np.uint8)))
    (data / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(2, np.uint8)))
    return r"train-images-idx3-ubyte has 3 images, and train-labels-idx1-ubyte 2 labels"


def cut_off(data):
    two_counts(data)
    (data / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((2, 2, 2), np.uint8))[:-1])
    return r"train-images-idx3-ubyte is not a complete IDX file of bytes with 3 dimensions"


def cut_off_and_packed(data):
    for name in ("images-idx3", "labels-idx1"):
        (data / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(2)))[:-9])
    return "the samples for train cannot be read: "


def no_picture(data):
    (data / "train" / "cat").mkdir(parents=True)
    (data / "train" / "cat" / "1.png").write_bytes(b"none")
    return r"the picture \S+/train/cat/1.png cannot be read: "


def not_even_an_archive(data):
    (data / "train.npz").write_bytes(b"none")
    return "the samples for train cannot be read: "


def half_an_array(data):
    (data / "train").mkdir()
    np.save(data / "train" / "x.npy", np.zeros(3))
    return "the samples for train cannot be read: .*y.npy"


@pytest.mark.parametrize(
    "spoil",
    [
        no_train,
        two_counts,
        cut_off,
        cut_off_and_packed,
        no_picture,
        not_even_an_archive,
        half_an_array,
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path, spoil):
    said = spoil(tmp_path)
    with pytest.raises(NotLoadable, match=said):
        splits.load(tmp_path, "train", NotLoadable)


def test_a_class_of_the_test_alone_is_refused(pictures):
    (pictures / "train" / "dog" / "1.gif").unlink()
    with pytest.raises(NotLoadable, match="/test/dog is a class that train does not have"):
        held_out(pictures)


def test_a_picture_that_is_broken_is_found_when_it_is_read(pictures):
    file = pictures / "train" / "dog" / "1.gif"
    file.write_bytes(file.read_bytes()[:20])
    x, _ = splits.load(pictures, "train", NotLoadable)
    with pytest.raises(NotLoadable, match=r"train/dog/1.gif cannot be read: "):
        x[3]
