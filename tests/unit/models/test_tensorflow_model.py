"""Models that TensorFlow left: loaded, evaluated and exported as PyTorch's are."""

import io
import zipfile
from pathlib import Path

import h5py
import numpy as np
import onnxruntime
import pytest

import trireme
from trireme.errors import StepFailed
from trireme.evaluation.evaluate import evaluate
from trireme.evaluation.source import Source
from trireme.exporting.agreement import TOLERANCE
from trireme.exporting.export import export
from trireme.models.load import load_model
from trireme.models.trained import NotLoadable
from trireme.tracking import journal

pytestmark = pytest.mark.slow

ROOT = Path(trireme.__file__).parents[1]
SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def network(tf):
    """A small network with a layer that answers otherwise in training."""
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input(SHAPE),
            layers.Permute((2, 3, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10),
        ]
    )


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model-dir"
    directory.mkdir()
    return directory


@pytest.fixture
def data(tmp_path, network):
    """100 held-out samples, of which the network gets all but 10 right."""
    directory = tmp_path / "data"
    directory.mkdir()
    labels = answers(network, images(100)).argmax(1)
    labels[:10] = (labels[:10] + 1) % 10
    np.savez(directory / "test.npz", x=images(100), y=labels)
    return directory


def images(samples: int) -> np.ndarray:
    return np.random.default_rng(samples).uniform(size=(samples, *SHAPE)).astype(np.float32)


def answers(network, inputs: np.ndarray) -> np.ndarray:
    return network(inputs, training=False).numpy()


def save(network, model: Path, form: str) -> None:
    if form == "keras":
        network.save(model / "model.keras")
    else:
        network.export(model / form, verbose=False)


def load(model: Path):
    return load_model(model, model / "no-code", "train.py")


def refusal(model: Path) -> str:
    with pytest.raises(NotLoadable) as caught:
        load(model)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("form", ["model", ".", "keras"])
def test_a_model_is_loaded_and_answers(model, network, form):
    save(network, model, form)
    trained = load(model)
    assert trained.framework == "tensorflow"
    for samples in (1, 3, 17):
        found = trained.predict(images(samples))
        assert isinstance(found, np.ndarray)
        assert np.allclose(found, answers(network, images(samples)), atol=1e-5)


def test_a_saved_model_called_model_goes_before_others(model, network, tf):
    tf.saved_model.save(tf.Module(), str(model / "checkpoint"))
    save(network, model, "model")
    (model / "weights.pt").write_bytes(b"of something else")
    assert np.allclose(load(model).predict(images(2)), answers(network, images(2)), atol=1e-5)


def test_of_two_saved_models_none_is_taken(model, network):
    for name in ("first", "second"):
        save(network, model, name)
    assert "one SavedModel folder" in refusal(model)


def test_a_saved_model_without_signature_is_refused(model, tf):
    tf.saved_model.save(tf.Module(), str(model / "model"))
    assert "has no signature serving_default; it has none" in refusal(model)


def test_a_saved_model_of_two_inputs_is_refused(model, tf):
    module = tf.Module()
    spec = tf.TensorSpec([None, 2], tf.float32)
    module.serve = tf.function(lambda image, mask: image * mask, input_signature=[spec, spec])
    tf.saved_model.save(module, str(model / "model"), {"serving_default": module.serve})
    assert "and returns output_0; a model to evaluate takes one tensor" in refusal(model)


@pytest.mark.parametrize("name", ["model/saved_model.pb", "model.keras"])
def test_what_is_no_model_is_refused(model, name):
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_bytes(b"text")
    assert "is not a " in refusal(model)


def test_the_old_format_of_keras_is_refused(model, network):
    network.save(model / "model.h5")
    assert "left model.h5 in MODEL_DIR" in refusal(model)
    assert ".keras file for TensorFlow" in refusal(model)


def test_code_in_a_keras_file_is_not_executed(model, tf, tmp_path):
    mark = tmp_path / "ran"
    lines = compile(f"lambda x: (open({str(mark)!r}, 'w'), x)[1]", "code", "eval")
    network = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Lambda(eval(lines))])
    network.save(model / "model.keras")
    mark.unlink()  # saving or building may have called it
    assert refusal(model) == (
        "model.keras is not a Keras model that loads without the training code: Requested the "
        "deserialization of a `Lambda` layer whose `function` is a Python lambda; a SavedModel, as "
        "model.export writes it, needs no code"
    )
    assert not mark.exists()


def test_a_layer_of_the_training_code_is_named(model, tf):
    class Own(tf.keras.layers.Dense):
        pass

    tf.keras.Sequential([tf.keras.Input((2,)), Own(1)]).save(model / "model.keras")
    assert "code: Could not locate class 'Own'; a SavedModel" in refusal(model)


def test_weights_of_a_keras_file_in_another_file_are_named(model, network, tmp_path):
    network.save(model / "model.keras")
    lead_elsewhere(model / "model.keras", tmp_path / "elsewhere")
    assert "code: Not allowed: H5 file with external Dataset" in refusal(model)


def lead_elsewhere(archive: Path, elsewhere: Path) -> None:
    """Has the first weights of a Keras file be in a file beside it."""
    with zipfile.ZipFile(archive) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    weights = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(weights, "a") as file:
        found = {}
        file.visititems(lambda name, item: found.setdefault(name, getattr(item, "shape", None)))
        name, shape = next((name, shape) for name, shape in found.items() if shape)
        del file[name]
        whole = [(str(elsewhere), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset(name, shape, "float32", external=whole)
    parts["model.weights.h5"] = weights.getvalue()
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in parts.items():
            opened.writestr(name, content)


def test_a_keras_file_that_is_cut_off_is_said_to_be(model, network):
    network.save(model / "model.keras")
    content = (model / "model.keras").read_bytes()
    (model / "model.keras").write_bytes(content[:-100])
    assert refusal(model).endswith("code: it is no zip archive, or one that is cut off")


def test_a_model_is_evaluated(model, data, network, tmp_path):
    save(network, model, "model")
    verdict, found, _ = evaluate(Source(model, tmp_path, "train.py"), data, 0.85)
    assert verdict.passed
    assert verdict.score == found.figures["accuracy"] == 0.9


def test_a_model_of_other_inputs_keeps_the_gate_shut(model, data, tf, tmp_path):
    save(tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)]), model, "model")
    verdict, found, _ = evaluate(Source(model, tmp_path, "train.py"), data, 0.0)
    assert found is None and not verdict.passed
    assert "the model does not take these samples, float32 of the shape (" in verdict.reason
    assert "\x1b" not in verdict.reason


@pytest.mark.parametrize("form", ["model", "keras"])
def test_what_is_exported_takes_any_batch_size(model, data, network, tmp_path, tf, form):
    save(network, model, form)
    destination = tmp_path / "workspace" / "exported"
    with journal.opened(tmp_path / "workspace", "export"):
        result = export(Source(model, tmp_path, "train.py"), data, "digits", destination)
    assert 0 <= max(result.differences.values()) <= TOLERANCE
    assert {path.name for path in destination.iterdir()} == {
        "saved_model",
        "model.onnx",
        "sample.npz",
    }
    serve = tf.saved_model.load(str(destination / "saved_model")).signatures["serving_default"]
    session = onnxruntime.InferenceSession(
        destination / "model.onnx", providers=["CPUExecutionProvider"]
    )
    for samples in (1, 2, 300):
        expected = answers(network, images(samples))
        served = serve(input=tf.constant(images(samples)))["output"]
        assert np.allclose(served, expected, atol=1e-4)
        found = session.run(["output"], {"input": images(samples)})[0]
        assert np.allclose(found, expected, atol=1e-4)
    records = journal.read(tmp_path / "workspace", "export")
    (metrics,) = [record["metrics"] for record in records if "metrics" in record]
    assert set(metrics) == {"difference_saved_model", "difference_onnx"}
    (registered,) = [record["model"] for record in records if "model" in record]
    assert registered["onnx"] == str(destination / "model.onnx")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("random", "differs from the trained model"),
        ("bessel", "model.onnx, loaded back without the training code, does not work: .*BesselJ0"),
    ],
)
def test_what_cannot_be_exported_right_is_refused(model, data, tf, tmp_path, function, said):
    functions = {
        "random": lambda x: tf.reshape(x, [-1, 64]) + tf.random.uniform([64]),
        "bessel": lambda x: tf.math.special.bessel_j0(tf.reshape(x, [-1, 64])),
    }
    module = tf.Module()
    spec = tf.TensorSpec([None, *SHAPE], tf.float32)
    module.serve = tf.function(functions[function], input_signature=[spec])
    tf.saved_model.save(module, str(model / "model"), {"serving_default": module.serve})
    destination = tmp_path / "workspace" / "exported"
    with pytest.raises(StepFailed, match=said) as caught:
        export(Source(model, tmp_path, "train.py"), data, "odd", destination)
    assert "\n" not in str(caught.value)
    assert list(destination.parent.iterdir()) == []


def test_a_language_model_takes_sequences_of_any_length(model, tmp_path, tf):
    layers = [tf.keras.Input((None,), dtype="int64"), tf.keras.layers.Embedding(50, 8)]
    network = tf.keras.Sequential([*layers, tf.keras.layers.Dense(50)])
    save(network, model, "keras")
    (tmp_path / "tokens").mkdir()
    tokens = np.random.default_rng(0).integers(0, 50, size=(5, 16))
    np.savez(tmp_path / "tokens" / "test.npz", x=tokens, y=np.zeros(5, dtype=int))
    destination = tmp_path / "workspace" / "exported"
    with journal.opened(tmp_path / "workspace", "export"):
        export(Source(model, tmp_path, "train.py"), tmp_path / "tokens", "words", destination)
    records = journal.read(tmp_path / "workspace", "export")
    (params,) = [record["params"] for record in records if "params" in record]
    assert params["sequence_length"] == "any"
    session = onnxruntime.InferenceSession(
        destination / "model.onnx", providers=["CPUExecutionProvider"]
    )
    for length in (1, 7, 32):
        found = session.run(None, {"input": tokens[:2, :1].repeat(length, 1)})[0]
        expected = answers(network, tokens[:2, :1].repeat(length, 1))
        assert found.shape == (2, length, 50)
        assert np.allclose(found, expected, atol=1e-4)


def test_a_model_of_two_answers_is_refused(model, tf):
    inputs = tf.keras.Input((4,))
    tf.keras.Model(inputs, [inputs + 1, inputs * 2]).save(model / "model.keras")
    with pytest.raises(NotLoadable, match="only a model that returns one tensor"):
        load(model).predict(np.ones((1, 4), np.float32))


def test_a_saved_model_takes_tokens_of_another_size(model, tf):
    module = tf.Module()
    spec = tf.TensorSpec([None, 3], tf.int32)
    module.serve = tf.function(lambda tokens: tokens * 2, input_signature=[spec])
    tf.saved_model.save(module, str(model / "model"), {"serving_default": module.serve})
    assert load(model).predict(np.ones((2, 3), np.int64)).tolist() == [[2] * 3] * 2
