"""Sharded checkpoints of PyTorch, put together: what ``torch.distributed.checkpoint`` saved.

Programs that train with FSDP, tensor or pipeline parallelism leave a part of the weights with each
process. Together these are a folder of ``*.distcp`` files and ``.metadata``, which says where in
them each piece of each tensor is:
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

import pickle
import warnings
from collections.abc import Mapping
from enum import Enum, EnumMeta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.data.forms import PROGRAM
from trireme.errors import first_line
from trireme.models.factory import build
from trireme.models.pytorch import as_trained, in_float32
from trireme.models.trained import NotLoadable, TrainedModel, read

if TYPE_CHECKING:
    import torch
    from torch.distributed.checkpoint.metadata import Metadata

METADATA = ".metadata"

_PLACE = "torch.distributed.checkpoint"
_ALLOWED = {
    f"{_PLACE}.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    f"{_PLACE}.filesystem": {"_StorageInfo"},
    "torch": {"Size"},  # and the types of numbers
    "torch.serialization": {"_get_layout"},
    "pathlib": {"PosixPath", "WindowsPath"},
    "pathlib._local": {"PosixPath", "WindowsPath"},  # Python 3.13
}


def load_sharded(directory: Path, code: Path, entrypoint: str, factory: str) -> TrainedModel:
    """Builds a network and gives it the weights of a sharded checkpoint."""
    # The checkpoint may hold more than the model, such as the state of the optimizer: the model is
    # the part of it whose names are the network's.
    if not factory:
        raise NotLoadable(
            f"{directory.name} is a sharded checkpoint, which holds weights only; give "
            "model_factory=module:callable, which builds the network",
            f"or give {PROGRAM}",
        )
    metadata = read(directory / METADATA, "the metadata of a sharded checkpoint", _unpickled)
    sizes = {name: value.size for name, value in _tensors(metadata).items()}
    network = build(factory, {}, code, entrypoint)
    try:
        state = network.state_dict()
        part = _part(set(state), set(sizes))
        _fits(state, part, sizes)
    except (ValueError, AttributeError) as error:
        raise NotLoadable(f"{directory.name} does not fit {factory}: {error}") from None
    _fill({part + name: tensor for name, tensor in state.items()}, directory, metadata)
    return as_trained(in_float32(network.eval()))


def tensors_in(directory: Path) -> dict[str, "torch.Tensor"]:
    """Returns all tensors of a sharded checkpoint by name."""
    import torch

    metadata = read(directory / METADATA, "the metadata of a sharded checkpoint", _unpickled)
    tensors = {
        name: torch.empty(value.size, dtype=value.properties.dtype)
        for name, value in _tensors(metadata).items()
    }
    _fill(tensors, directory, metadata)
    return tensors


class _Unpickler(pickle.Unpickler):
    """Reads ``.metadata``, a pickle, of which only torch's descriptions of tensors are made."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        is_number = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if is_number or name in _ALLOWED.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member  # Python 3.11.0 to 3.11.3 pickle what is of an Enum by that
        raise pickle.UnpicklingError(f"{module}.{name} has no place in it, and is not executed")


def _member(of: Any, name: str) -> Enum:
    if isinstance(of, EnumMeta) and name in of.__members__:
        return of[name]
    raise pickle.UnpicklingError("builtins.getattr has no place in it, and is not executed")


def _unpickled(file: Path) -> "Metadata":
    from torch.distributed.checkpoint.metadata import Metadata

    with file.open("rb") as opened:
        metadata = _Unpickler(opened).load()
    if not isinstance(metadata, Metadata):
        raise ValueError(f"it holds a {type(metadata).__name__}")
    for name, tensor in _tensors(metadata).items():
        if sum(chunk.sizes.numel() for chunk in tensor.chunks) != tensor.size.numel():
            raise ValueError(f"it does not have all of {name}")
    for storage in metadata.storage_data.values():
        if Path(storage.relative_path).name != storage.relative_path:
            raise ValueError(f"{storage.relative_path} is not beside it")
    return metadata


def _tensors(metadata: "Metadata") -> dict[str, Any]:
    """Returns what is said of each tensor; other values would be unpickled, and are left out."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    return {
        name: value
        for name, value in metadata.state_dict_metadata.items()
        if isinstance(value, TensorStorageMetadata)
    }


def _part(names: set[str], saved: set[str]) -> str:
    """Returns what is before the network's names in the checkpoint; empty for the whole of it."""
    first = min(names, default="")
    before = [name.removesuffix(first) for name in saved if f".{name}".endswith(f".{first}")]
    parts = [part for part in before if all(part + name in saved for name in names)]
    model = [part for part in parts if f".{part}".endswith(".model.")]
    for candidates in (parts, model):
        if len(candidates) == 1:
            return candidates[0]
    if parts:
        raise ValueError(f"it holds several such networks, below {', '.join(sorted(parts))}")
    lacking = [{part + name for name in names} - saved for part in before or [""]]
    missing = min(map(min, lacking))
    raise ValueError(f"it has no {missing}; it holds {', '.join(sorted(saved)[:5]) or 'nothing'}")


def _fits(state: Mapping[str, Any], part: str, sizes: Mapping[str, "torch.Size"]) -> None:
    """Refuses a checkpoint with other shapes, or with weights that the network lacks."""
    for name, tensor in state.items():
        if sizes[part + name] != tensor.shape:
            raise ValueError(
                f"{part}{name} is {tuple(sizes[part + name])}, the network's is "
                f"{tuple(tensor.shape)}"
            )
    if more := [name for name in sizes if name.startswith(part) and name[len(part) :] not in state]:
        raise ValueError(f"the network has no {min(more)[len(part) :]}")


def _fill(tensors: dict[str, "torch.Tensor"], directory: Path, metadata: "Metadata") -> None:
    """Copies the pieces of each tensor to where they belong."""
    from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, load
    from torch.distributed.checkpoint.api import CheckpointException

    class Reader(FileSystemReader):
        def read_metadata(self) -> "Metadata":
            return metadata

    planner = DefaultLoadPlanner(flatten_state_dict=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(tensors, storage_reader=Reader(directory), planner=planner, no_dist=True)
    except CheckpointException as error:
        ((reason, _),) = error.failures.values()
        raise NotLoadable(f"{directory.name} cannot be read: {first_line(reason)}") from None
