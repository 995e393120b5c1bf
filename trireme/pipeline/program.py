"""Reading of a training program that somebody runs by its file: ``trireme run train.py``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trireme.code import shadow
from trireme.data.uri import NONE

_PIPELINES_OF_THEIR_OWN = {"transformers", "diffusers", "optimum", "sklearn", "spacy"}
_TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
_KERAS_BACKEND = re.compile(rb"KERAS_BACKEND\W{1,8}(torch|jax)\b")


class Program(NamedTuple):
    """How a training program is run.

    Attributes:
        pipeline: The pipeline that trains with it.
        parameters: What that is given.
    """

    pipeline: str
    parameters: dict[str, Any]


def program_of(reference: str) -> Program | None:
    """Returns how a program is run; None for what is no Python file, or one that holds pipelines.

    Its code is the folder where a person stands, if the program is below it, so that paths in its
    arguments mean what they mean to ``python FILE``; else the program's own folder.
    """
    file = Path(reference).resolve()
    try:
        if file.suffix != ".py" or not file.is_file() or not is_program(file):
            return None
    except SyntaxError:  # which is told as that of a file with pipelines is
        return None
    folder = _folder(file)
    top = shadow.top(folder) or folder
    directory = folder.relative_to(top).as_posix()
    parameters = {
        "code_url": str(top),
        "code_directory": "" if directory == "." else directory,
        "entrypoint": file.relative_to(folder).as_posix(),
        "dataset_uri": NONE,
    }
    pipeline = "tensorflow-training" if _is_tensorflow(file) else "pytorch-training"
    return Program(pipeline, parameters)


def named(data: str) -> dict[str, str]:
    """Returns the parameter that names a dataset: a path, a URI, or @NAME of trireme.yaml."""
    return {"dataset" if data.startswith("@") else "dataset_uri": data} if data else {}


def is_program(file: Path) -> bool:
    """Tells whether a Python file is a program, and not one that holds pipelines.

    Raises:
        SyntaxError: It is no Python.
    """
    tree = ast.parse(file.read_bytes(), str(file))
    names = {
        getattr(node, attribute, "")
        for node in ast.walk(tree)
        for attribute in ("id", "attr", "name", "asname")
    }
    imported = _imported(tree)
    is_of_others = bool(imported & _PIPELINES_OF_THEIR_OWN) and not imported & {"kfp", "trireme"}
    return "pipeline" not in names or is_of_others


def _folder(file: Path) -> Path:
    working_directory = Path.cwd().resolve()
    is_below = file.is_relative_to(working_directory)
    is_one_repository = shadow.top(working_directory) == shadow.top(file.parent)
    is_project = shadow.top(working_directory) is not None and is_one_repository
    return working_directory if is_below and is_project else file.parent


def _is_tensorflow(file: Path) -> bool:
    """Tells whether a program, or what it imports of its own folder, uses TensorFlow."""
    names: set[str] = set()
    for source in _sources(file):
        if _KERAS_BACKEND.search(source.read_bytes()):
            return False
        names |= _imported(_parsed(source))
    return bool(names & _TENSORFLOW) and "torch" not in names


def _sources(file: Path) -> Iterator[Path]:
    """Yields a program and the files that it imports from its own folder."""
    waiting, seen = [file], set[Path]()
    while waiting:
        if (source := waiting.pop()) in seen:
            continue
        seen.add(source)
        yield source
        for name in _imported(_parsed(source)):
            places = (file.parent / f"{name}.py", file.parent / name / "__init__.py")
            waiting += [path for path in places if path.is_file()]


def _imported(tree: ast.Module) -> set[str]:
    """Returns the first names of all modules that are imported anywhere in a file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def _parsed(file: Path) -> ast.Module:
    """Returns a file's syntax tree, an empty one where it cannot be read."""
    try:
        return ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])
