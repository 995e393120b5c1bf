"""Build a network with the user's own code."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.data.forms import PROGRAM
from trireme.models.trained import NotLoadable

if TYPE_CHECKING:
    import torch


def build(
    factory: Any, arguments: Any, code: Path, entrypoint: str, *, is_given: bool = True
) -> "torch.nn.Module":
    """Imports a factory from the code, or from beside its entrypoint, and calls it.

    Args:
        is_given: Whether a person has named it. A file may name only what the code itself defines:
            whoever made it could have any function called.
    """
    with _importable(code, entrypoint):
        try:
            module, _, name = factory.partition(":")
            if not is_given:
                _refuse_missing(factory, module, code, entrypoint)
            function = getattr(importlib.import_module(module), name)
            if not is_given:
                _refuse_foreign(factory, function, code)
            return function(**arguments)
        except NotLoadable:
            raise
        except (Exception, SystemExit) as error:  # a script may end itself when it is imported
            raise NotLoadable(
                f"model_factory {factory!r} could not build the model: "
                f"{type(error).__name__}: {error}"
            ) from None


def _refuse_missing(factory: str, module: str, code: Path, entrypoint: str) -> None:
    # Not even imported: modules do things when they are, and a folder of the code that has no
    # __init__.py gives way to a module of that name elsewhere.
    path = module.replace(".", "/")
    places = ((code / entrypoint).parent, code)
    ends = (".py", "/__init__.py")
    if not any((folder / f"{path}{end}").is_file() for folder in places for end in ends):
        raise _foreign(factory)


def _refuse_foreign(factory: str, function: Any, code: Path) -> None:
    # Of a module that is imported already, such as os, the code's own of that name is not read.
    defined = sys.modules.get(str(getattr(function, "__module__", "")))
    file = getattr(defined, "__file__", None)
    if not file or not Path(file).resolve().is_relative_to(code.resolve()):
        raise _foreign(factory)


def _foreign(factory: str) -> NotLoadable:
    return NotLoadable(
        f"the file names the factory {factory!r}, which the training code does not define; name it "
        "with model_factory if it is meant",
        f"or give {PROGRAM}",
    )


@contextmanager
def _importable(code: Path, entrypoint: str) -> Iterator[None]:
    """Makes the training code's modules importable, as they are for the training program."""
    program = code / entrypoint
    path, arguments = sys.path[:], sys.argv[:]
    sys.path[:0] = [str(program.parent), str(code)]
    sys.argv[:] = [str(program)]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, arguments
