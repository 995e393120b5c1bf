"""Loading of what a training program leaves in MODEL_DIR, as a model."""

from pathlib import Path

from trireme.data.forms import PROGRAM
from trireme.models import pytorch, sharded, tensorflow
from trireme.models.trained import NotLoadable, TrainedModel

SAVED_MODEL = "saved_model.pb"  # the file that makes a folder a SavedModel


def load_model(directory: Path, code: Path, entrypoint: str, factory: str = "") -> TrainedModel:
    """Loads the model that a training program left.

    Accepted, in this order; of several in one form, the one that is called model:

    - a SavedModel, which is a folder with ``saved_model.pb``;
    - ``*.keras``: a Keras model, as ``model.save`` writes it;
    - ``*.pt2``: a program saved with ``torch.export.save``, which needs no training code;
    - ``*.pt``, ``*.pth`` or ``*.bin``: a ``torch.save`` of a dictionary with ``factory``
      (``"module:callable"``), ``arguments`` (a dictionary, optional) and ``state_dict``; or a
      bare state dictionary, together with ``factory`` given here. The factory is imported from
      the training code and called;
    - ``*.safetensors``: a bare state dictionary, likewise;
    - a folder of ``*.distcp`` files and ``.metadata`` of ``torch.distributed.checkpoint.save``, of
      a state dictionary or of a dictionary that holds one, together with ``factory`` given here.

    No pickle and no code in a file is executed. A SavedModel and a ``.pt2`` are programs, of
    their framework's operations; they run when the model answers.

    Args:
        entrypoint: The training program; modules beside it can be imported.
        factory: ``module:callable`` that builds the network for a bare state dictionary
            or a sharded checkpoint.
    """
    path = _find(directory)
    if (path / SAVED_MODEL).exists():
        return tensorflow.load_saved_model(path)
    if path.is_dir():
        return sharded.load_sharded(path, code, entrypoint, factory)
    if path.suffix == ".keras":
        return tensorflow.load_keras(path)
    if path.suffix == ".pt2":
        return pytorch.load_program(path)
    return pytorch.load_weights(path, code, entrypoint, factory)


def framework_of(directory: Path) -> str:
    """Returns what loads the model that a training program left; nothing of it is loaded yet."""
    path = _find(directory)
    is_tensorflow = (path / SAVED_MODEL).exists() or path.suffix == ".keras"
    return "tensorflow" if is_tensorflow else "pytorch"


def _find(directory: Path) -> Path:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    forms = [
        [path.parent for path in files if path.name == SAVED_MODEL],
        [path for path in files if path.suffix == ".keras"],
        [path for path in files if path.suffix == ".pt2"],
        [path for path in files if path.suffix in (".pt", ".pth", ".bin")],
        [path for path in files if path.suffix == ".safetensors"],
        [path.parent for path in files if path.name == sharded.METADATA],
    ]
    for form in forms:
        named = [path for path in form if path.stem == "model"]
        for candidates in (named, form):
            if len(candidates) == 1:
                return candidates[0]
    names = ", ".join(path.name for path in files[:5]) or "nothing"
    raise NotLoadable(
        f"the training program left {names} in MODEL_DIR; a model to evaluate is one .pt2 file of "
        "torch.export.save, one .pt file of weights or one folder of torch.distributed.checkpoint "
        "for PyTorch, one SavedModel folder or one .keras file for TensorFlow",
        f"have it save one, or give {PROGRAM}",
    )
