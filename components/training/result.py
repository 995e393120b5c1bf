"""What a training program leaves in MODEL_DIR, and how it becomes a model again."""

import importlib
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import InputError, TriremeError

if TYPE_CHECKING:
    import torch

WEIGHTS = (".pt", ".pth", ".bin")

_OURS = re.compile(r"(components|pipelines)(\.|$)")


class NotLoadable(TriremeError):
    """The directory holds no model that can be loaded without more being said."""


def check(factory: str) -> None:
    """Refuses what cannot name a factory.

    Args:
        factory: As for ``load_model``.

    Raises:
        InputError: It is neither empty nor of the form ``module:callable``.
    """
    if factory and not re.fullmatch(r"[\w.]+:\w+", factory):
        raise InputError(f"model_factory {factory!r}: must be module:callable, as in train:Net")


def load_model(
    directory: Path, code: Path, entrypoint: str, factory: str = ""
) -> "torch.nn.Module":
    """Loads the model that a training program left. Nothing of the file itself is executed.

    Accepted, in this order:

    - ``*.pt2``: a program saved with ``torch.export.save``, which needs no training code;
    - ``model.pt``, or the only ``.pt``, ``.pth`` or ``.bin``: a ``torch.save`` of a dictionary
      with ``factory`` (``"module:callable"``), ``arguments`` (a dictionary, optional) and
      ``state_dict``; or a bare state dictionary, together with ``factory`` given here. The
      factory is imported from the training code and called.

    Args:
        directory: What was MODEL_DIR.
        code: The training code's repository.
        entrypoint: The training program in it; modules beside it can be imported.
        factory: ``module:callable`` that builds the network for a bare state dictionary.

    Returns:
        The model, in evaluation mode, on the CPU.

    Raises:
        NotLoadable: One sentence on what is there and what would be accepted.
    """
    import torch

    file = _model_file(directory)
    if file.suffix == ".pt2":
        return _read(file, "an exported program", torch.export.load).module()
    load = partial(torch.load, map_location="cpu", weights_only=True)
    saved = _read(file, "a file of weights", load)
    arguments: Any = {}
    state = saved
    if isinstance(saved, Mapping) and {"factory", "state_dict"} <= set(saved):
        factory, arguments = saved["factory"], saved.get("arguments", {})
        state = saved["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise NotLoadable(f"{file.name} holds a {type(state).__name__}, not a state dictionary")
    if not factory:
        raise NotLoadable(
            f"{file.name} holds weights only; give model_factory=module:callable, which builds "
            "the network, or let the program save with torch.export.save to model.pt2"
        )
    with _importable(code, entrypoint):
        network = _call(factory, arguments)
    try:
        network.load_state_dict(_unwrapped(state, network))
    except (RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise NotLoadable(f"{file.name} does not fit {factory}: {reason}") from None
    return network.eval()


def _read(file: Path, expected: str, load: Callable[[Path], Any]) -> Any:
    try:
        return load(file)
    except pickle.UnpicklingError:
        reason = "pickled objects are never loaded, let the program save the state_dict"
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    raise NotLoadable(f"{file.name} is not {expected}: {reason}")


def _unwrapped(state: Mapping[str, Any], network: "torch.nn.Module") -> dict[str, Any]:
    """Returns a state dictionary without the ``module.`` of a data-parallel wrapper."""
    wrapped = bool(state) and all(name.startswith("module.") for name in state)
    if not wrapped or set(state) == set(network.state_dict()):
        return dict(state)
    return {name.removeprefix("module."): value for name, value in state.items()}


def _model_file(directory: Path) -> Path:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    programs = [path for path in files if path.suffix == ".pt2"]
    weights = [path for path in files if path.suffix in WEIGHTS]
    named = [path for path in weights if path.stem == "model"]
    for candidates in (programs, named, weights):
        if len(candidates) == 1:
            return candidates[0]
    found = ", ".join(path.name for path in files[:5]) or "nothing"
    raise NotLoadable(
        f"the training program left {found} in MODEL_DIR; a model to evaluate is one .pt2 file "
        "of torch.export.save, or one .pt file of weights"
    )


def _call(factory: Any, arguments: Any) -> "torch.nn.Module":
    try:
        module, _, name = factory.partition(":")
        return getattr(importlib.import_module(module), name)(**arguments)
    except (Exception, SystemExit) as error:  # a script may end itself when it is imported
        raise NotLoadable(
            f"model_factory {factory!r} could not build the model: {type(error).__name__}: {error}"
        ) from None


@contextmanager
def _importable(code: Path, entrypoint: str) -> Iterator[None]:
    """Makes the training code's modules importable, as they are for the training program.

    Ours step aside meanwhile: the code may well have a package called ``components`` too.
    """
    program = code / entrypoint
    path, arguments = sys.path[:], sys.argv[:]
    ours = {name: module for name, module in sys.modules.items() if _OURS.match(name)}
    for name in ours:
        del sys.modules[name]
    sys.path[:0] = [str(program.parent), str(code)]
    sys.argv[:] = [str(program)]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, arguments
        for name in [name for name in sys.modules if _OURS.match(name)]:
            del sys.modules[name]
        sys.modules.update(ours)
