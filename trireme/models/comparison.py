"""Compare two results of training, tensor by tensor."""

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trireme.models import sharded
from trireme.models.pytorch import load_exported
from trireme.models.sharded import METADATA

if TYPE_CHECKING:
    import torch

_BYTES = np.dtype("S1")  # of a file whose tensors cannot be read
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"  # the key of what TensorFlow knows of the variables


class Difference(NamedTuple):
    """A tensor, or a file, that differs: how, and by what absolute amount at the most."""

    name: str
    amount: float
    how: str


@dataclass(frozen=True)
class Comparison:
    """How two results compare, by their tensors or, where no tensor was found, their files."""

    tensors: int
    parameters: int
    differences: list[Difference]

    @property
    def identical(self) -> bool:
        """Whether all of them are the same, bit by bit."""
        return not self.differences

    @property
    def largest(self) -> Difference:
        """The largest of the differences; there has to be one."""
        return max(self.differences, key=lambda difference: difference.amount)

    @property
    def in_words(self) -> str:
        """What was found, as a sentence without its subject."""
        noun = "tensor" if self.parameters else "file"
        of = f"{self.tensors:,} {noun}{'' if self.tensors == 1 else 's'}"
        if self.differences:
            name, _, how = self.largest
            return f"differs in {len(self.differences):,} of {of}, most in {name}, which {how}"
        numbers = f" with {self.parameters:,} parameters" if self.parameters else ""
        return f"is bit-identical, {of}{numbers}"


def compare(original: Path, again: Path) -> Comparison:
    """Compares what two runs of a training program left in MODEL_DIR.

    Compared are the tensors of ``.pt``, ``.pth``, ``.bin``, ``.pt2`` and ``.safetensors`` files, of
    ``.keras`` and ``.h5`` files, of TensorFlow's checkpoints, which SavedModels hold, and of
    PyTorch's sharded ones; where these cannot be read, the bytes of the file. Other files count
    only where there is none of these: the frameworks write names, times and paths into them that
    are new every time.
    """
    before, after = _arrays(original), _arrays(again)
    if not before and not after:
        before, after = _files(original), _files(again)
    everything = sorted(before.keys() | after.keys())
    differences = (_difference(name, before.get(name), after.get(name)) for name in everything)
    return Comparison(
        tensors=len(everything),
        parameters=sum(array.size for array in before.values() if array.dtype != _BYTES),
        differences=[difference for difference in differences if difference],
    )


def _difference(
    name: str, before: np.ndarray | None, after: np.ndarray | None
) -> Difference | None:
    if before is None or after is None:
        return Difference(name, np.inf, "is missing" if after is None else "is new")
    if before.shape != after.shape or before.dtype != after.dtype:
        was, now = (f"{array.dtype} of shape {array.shape}" for array in (before, after))
        return Difference(name, np.inf, f"was {was} and is {now}")
    if np.array_equal(_bits(before), _bits(after)):
        return None
    if before.dtype == _BYTES:
        return Difference(name, np.inf, "has other bytes")
    amount = _distance(before, after)
    return Difference(name, amount, f"is up to {amount:.3g} away")


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _distance(before: np.ndarray, after: np.ndarray) -> float:
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        apart = np.abs(before.astype(wide) - after.astype(wide))
    apart[(before == after) | (np.isnan(before) & np.isnan(after))] = 0
    return float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max())


def _arrays(directory: Path) -> dict[str, np.ndarray]:
    """Returns the tensors below a directory by file and name."""
    arrays: dict[str, np.ndarray] = {}
    for file in _below(directory):
        if reader := _READERS.get(file.suffix or file.name):
            name = str(file.relative_to(directory))
            try:
                arrays |= {f"{name} {tensor}": array for tensor, array in reader(file)}
            except Exception:  # whatever a library says of a file that is not what it seems
                arrays[name] = _raw(file)
    return arrays


def _files(directory: Path) -> dict[str, np.ndarray]:
    return {str(file.relative_to(directory)): _raw(file) for file in _below(directory)}


def _below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _raw(file: Path) -> np.ndarray:
    return np.fromfile(file, _BYTES)


def _of_torch(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    import torch

    return _leaves(torch.load(file, map_location="cpu", weights_only=True))


def _of_program(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    program = load_exported(file)
    return _leaves({"state_dict": program.state_dict, "constants": program.constants})


def _of_safetensors(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    # Installed only where somebody wants it; without it the bytes are compared.
    return _leaves(import_module("safetensors.torch").load_file(file))


def _of_shards(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    return _leaves(sharded.tensors_in(file.parent))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors in nested dictionaries and lists."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, _as_array(value)
    elif isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            yield from _leaves(inner, f"{name}.{key}".lstrip("."))


def _as_array(tensor: "torch.Tensor") -> np.ndarray:
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.itemsize < 4:
        tensor = tensor.float()  # NumPy lacks some of the small types; float32 holds them exactly
    return tensor.numpy()


def _of_checkpoint(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the variables of a TensorFlow checkpoint, of which this is the index."""
    # Keras writes each variable twice, the second time numbered in an order that changes. So they
    # go by the names that their layers gave them, and are numbered only where names do not tell.
    import tensorflow as tf

    checkpoint = tf.train.load_checkpoint(str(file.with_suffix("")))
    variables: dict[str, np.ndarray] = {}
    for key, name in _variables(checkpoint).items():
        array = np.asarray(checkpoint.get_tensor(key))
        if array.dtype == tf.bfloat16.as_numpy_dtype:
            array = array.astype(np.float32)
        if array.dtype.kind not in "biufc":
            continue  # text, of which bits tell nothing
        if name not in variables:
            variables[name] = array
        elif _difference(name, variables[name], array):
            variables[key] = array
    return iter(variables.items())


def _variables(checkpoint: Any) -> dict[str, str]:
    """Returns the names of the variables in a TensorFlow checkpoint by their keys in it."""
    # https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/protobuf/trackable_object_graph.proto
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    keys = checkpoint.get_variable_to_shape_map()
    if _OBJECTS not in keys:  # written by TensorFlow 1, where keys are names
        return {key: key for key in keys}
    graph = TrackableObjectGraph.FromString(checkpoint.get_tensor(_OBJECTS))
    return {
        attribute.checkpoint_key: attribute.full_name or attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
    }


def _of_keras(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    with zipfile.ZipFile(file) as archive:
        return _of_hdf5(io.BytesIO(archive.read("model.weights.h5")))


def _of_hdf5(file: Path | io.BytesIO) -> Iterator[tuple[str, np.ndarray]]:
    import h5py

    arrays = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ValueError(f"{name} is in another file")  # which may be any of this machine
            arrays[name] = item[()]

    with h5py.File(file, "r") as opened:
        opened.visititems(keep)
    return iter(arrays.items())


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, np.ndarray]]]] = {
    ".pt": _of_torch,
    ".pth": _of_torch,
    ".bin": _of_torch,
    ".pt2": _of_program,
    ".safetensors": _of_safetensors,
    ".index": _of_checkpoint,
    ".keras": _of_keras,
    ".h5": _of_hdf5,
    METADATA: _of_shards,
}
