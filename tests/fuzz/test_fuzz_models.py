"""Files of weights: trireme/models/."""

import pytest
from fuzzing import changed_bytes, fuzz, read_or_refused

from trireme.models.load import load_model

torch = pytest.importorskip("torch")
save_safetensors = pytest.importorskip("safetensors.torch").save


VALID = save_safetensors({"weight": torch.ones(2, 3), "bias": torch.zeros(2)}, {"format": "pt"})


def load(content, name, folder):
    (folder / name).write_bytes(content)
    return load_model(folder, folder, "train.py", "torch.nn:Module")


@pytest.mark.parametrize(
    "header",
    [b"{", b"[]", b'{"a": 1}', b'{"a":{"dtype":"F32","shape":[9999999999],"data_offsets":[0,4]}}'],
)
def test_a_header_that_is_none_is_refused(header, tmp_path):
    content = len(header).to_bytes(8, "little") + header
    assert read_or_refused(load, content, "model.safetensors", tmp_path) is None


@fuzz(100, content=changed_bytes([VALID]))
def test_safetensors_are_loaded_or_refused_in_a_sentence(content, tmp_path):
    read_or_refused(load, content, "model.safetensors", tmp_path)
