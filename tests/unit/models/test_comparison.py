"""trireme/models/comparison.py: two results of training, compared tensor by tensor."""

import math
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from trireme.models.comparison import compare


@pytest.fixture
def results(tmp_path):
    """Makes the two directories of what was saved; returns them."""

    def make(before, after, save=torch.save, name="model.pt"):
        directories = [tmp_path / "original", tmp_path / "again"]
        for directory, content in zip(directories, (before, after), strict=True):
            directory.mkdir()
            save(content, directory / name)
        return directories

    return make


def model(weight, **more):
    return {"factory": "train:Net", "state_dict": {"weight": weight, "bias": torch.zeros(2)}} | more


def test_the_same_tensors_are_bit_identical_and_counted(results):
    weight = torch.rand(3, 5)
    comparison = compare(*results(model(weight), model(weight.clone())))
    assert comparison.identical
    assert comparison.in_words == "is bit-identical, 2 tensors with 17 parameters"


def test_of_a_folder_of_transformers_the_tensors_count_and_not_its_texts(results):
    weights = {"weight": torch.rand(3, 5), "half": torch.rand(2).bfloat16()}
    before, after = results(weights, weights, save_file, "model.safetensors")
    for place in (before, after):
        (place / "adapter").mkdir()
        save_file(weights, place / "adapter" / "adapter_model.safetensors")
        (place / "adapter" / "README.md").write_text(f"base_model: {place}")
    assert compare(before, after).in_words == "is bit-identical, 4 tensors with 34 parameters"
    other = weights | {"weight": weights["weight"] + 1}
    save_file(other, after / "adapter" / "adapter_model.safetensors")
    assert compare(before, after).largest.name == "adapter/adapter_model.safetensors weight"


def test_the_largest_difference_is_told_with_its_tensor(results):
    weight = torch.zeros(3, 5)
    other = weight.clone()
    other[1, 1], other[2, 2] = 0.25, -0.5
    comparison = compare(*results(model(weight), model(other)))
    assert not comparison.identical
    assert comparison.largest.amount == 0.5
    assert comparison.in_words == (
        "differs in 1 of 2 tensors, most in model.pt state_dict.weight, which is up to 0.5 away"
    )


@pytest.mark.parametrize(
    ("before", "after", "amount"),
    [
        (0.0, -0.0, 0.0),
        (1.0, math.nextafter(1.0, 2.0), 2.0**-52),
        (1.0, math.nan, math.inf),
        (math.nan, math.nan, None),
        (math.inf, math.inf, None),
        (math.inf, -math.inf, math.inf),
    ],
)
def test_bits_count_not_what_compares_equal(results, before, after, amount):
    saved = ({"x": torch.tensor([each], dtype=torch.float64)} for each in (before, after))
    comparison = compare(*results(*saved))
    assert comparison.identical == (amount is None)
    if amount is not None:
        assert comparison.largest.amount == amount


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.int64, torch.bool]
)
def test_every_type_is_compared(results, dtype):
    one, other = torch.tensor([0, 1]).to(dtype), torch.tensor([1, 1]).to(dtype)
    comparison = compare(*results({"x": one}, {"x": other}))
    assert comparison.largest.amount == 1.0


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        ({"a": torch.ones(1), "b": torch.ones(1)}, {"a": torch.ones(1)}, "b, which is missing"),
        ({"a": torch.ones(1)}, {"a": torch.ones(1), "b": torch.ones(1)}, "b, which is new"),
        (
            {"a": torch.ones(2)},
            {"a": torch.ones(3)},
            "which was float32 of shape (2,) and is float32 of shape (3,)",
        ),
        (
            {"a": torch.ones(2)},
            {"a": torch.ones(2).double()},
            "which was float32 of shape (2,) and is float64 of shape (2,)",
        ),
    ],
)
def test_tensors_that_cannot_be_subtracted_are_told(results, before, after, how):
    assert how in compare(*results(before, after)).in_words


def test_other_files_do_not_count_beside_tensors(results):
    original, again = results(model(torch.ones(1)), model(torch.ones(1)))
    (original / "log.txt").write_text("at noon")
    (again / "log.txt").write_text("at night")
    assert compare(original, again).identical


def test_files_are_compared_where_there_is_no_tensor(results):
    def save(text, file):
        file.write_text(text)

    original, again = results("1 2 3", "1 2 4", save, "weights.txt")
    comparison = compare(original, again)
    assert (
        comparison.in_words == "differs in 1 of 1 file, most in weights.txt, which has other bytes"
    )
    assert compare(original, original).in_words == "is bit-identical, 1 file"


def test_a_pickle_is_not_executed_but_its_bytes_are_compared(results, tmp_path):
    class Poison:
        def __init__(self, name):
            self.file = tmp_path / name

        def __reduce__(self):
            return (self.file.touch, ())

    def save(poison, file):
        file.write_bytes(pickle.dumps(poison))

    comparison = compare(*results(Poison("a"), Poison("b"), save))
    assert comparison.largest.name == "model.pt"
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_exported_programs_are_compared(results):
    def save(value, file):
        layer = torch.nn.Linear(2, 1)
        torch.nn.init.constant_(layer.weight, value)
        torch.nn.init.zeros_(layer.bias)
        torch.export.save(torch.export.export(layer, (torch.ones(1, 2),)), file)

    comparison = compare(*results(1.0, 1.5, save, "model.pt2"))
    assert comparison.tensors == 2
    assert comparison.largest[:2] == ("model.pt2 state_dict.weight", 0.5)


def test_of_hdf5_no_other_file_is_read(results, tmp_path):
    import h5py

    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(bytes(12))

    def save(content, path):
        with h5py.File(path, "w") as file:
            file.create_dataset("weight", (3,), "f4", external=[(content, 0, 12)])

    comparison = compare(*results(str(elsewhere), str(elsewhere), save, "model.h5"))
    assert comparison.in_words == "is bit-identical, 1 file"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["saved_model", "keras"])
def test_models_of_tensorflow_are_compared(results, form):
    import tensorflow as tf

    def save(value, file):
        tf.keras.backend.clear_session()
        layers = [tf.keras.Input((2,)), tf.keras.layers.Dense(1)]
        layers += [tf.keras.layers.Dense(3) for _ in range(5)]
        network = tf.keras.Sequential(layers)
        network.set_weights([np.full_like(weights, 1.0) for weights in network.get_weights()])
        network.layers[3].bias.assign(tf.fill([3], value))
        if form == "keras":
            network.save(file)
        else:
            network.export(file, verbose=False)

    name = "model.keras" if form == "keras" else "model"
    original, again = results(1.0, 1.5, save, name)
    comparison = compare(original, again)
    assert (comparison.tensors, len(comparison.differences)) == (12, 1)
    assert comparison.largest.amount == 0.5

    comparison = again.with_name("comparison")
    comparison.mkdir()
    save(1.0, comparison / name)
    assert (
        compare(original, comparison).in_words == "is bit-identical, 12 tensors with 57 parameters"
    )
