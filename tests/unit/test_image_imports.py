"""Every image holds what our modules import in it, at their top and inside of functions."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

import trireme
from trireme.components import extras

ROOT = Path(trireme.__file__).parents[1]
OURS = ("trireme/components", "trireme/pipelines")

LOCKS = {
    "base": ("base",),
    "pytorch": ("pytorch-cpu", "pytorch-cuda"),
    "tensorflow": ("tensorflow-cpu", "tensorflow-cuda"),
    "mpi": ("pytorch-cpu", "pytorch-cuda"),
    "jax": ("jax",),
    "xgboost": ("xgboost",),
}
"""What says which packages an image holds; no program of ours runs in the image mlflow."""

NOT_THERE = {
    "base": {
        # The step finish says so in a sentence: the one step here that may come to it.
        "trireme.components.tracking.sync:_log_onnx",
        "trireme.components.tracking.sync:_signature",
        # Only 'trireme run' makes the store of a machine.
        "trireme.components.tracking.store:make",
        # Without SQLAlchemy a database is refused before.
        "trireme.components.tracking.store:_check_database",
    },
    # A model is loaded by the framework that it was made with.
    "pytorch": {
        "trireme.components.export.answering:_saved_model",
        "trireme.components.export.tensorflow",
        "trireme.components.training.result.tensorflow",
    },
    "tensorflow": {
        "trireme.components.export.answering:_program",
        "trireme.components.export.pytorch",
        "trireme.components.training.result.pytorch",
        "trireme.components.training.result.sharded",
    },
    "mpi": set(),
    "jax": set(),
    "xgboost": set(),
}
"""What may be reached from a step in an image, and does not run there."""

# Imports modules where nothing but some distributions is installed, and calls what tells whether
# MLflow is away with a refusal of MLflow's.
ALONE = """
import importlib, json, sys
from importlib.machinery import PathFinder

modules, hidden = map(json.loads, sys.argv[1:])

class Seen:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in hidden:
            return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Seen
for module in modules:
    importlib.import_module(module)

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS
from trireme.components.tracking.client import patiently

def refuse():
    raise MlflowException("there is one", error_code=RESOURCE_ALREADY_EXISTS)

try:
    patiently(refuse)
except MlflowException as error:
    print(error)
"""


class Import(NamedTuple):
    """What is imported, and where: in a module or, inside of a function, ``module:function``."""

    name: str
    place: str

    @property
    def top(self) -> str:
        """The package that it is of."""
        return self.name.partition(".")[0]


def normal(name: str) -> str:
    """Returns a distribution's name, which is the same for both builds of TensorFlow."""
    return re.sub(r"[-_.]+", "-", name).lower().removesuffix("-cpu")


def held(lock: str) -> set[str]:
    """Returns the distributions that one of images/locks lists."""
    text = (ROOT / "images" / "locks" / f"{lock}.txt").read_text()
    return {normal(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def file_of(module: str) -> Path | None:
    path = ROOT / module.replace(".", "/")
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def tree_of(module: str) -> ast.Module:
    file = file_of(module)
    assert file, f"there is no module {module}"
    return ast.parse(file.read_text())


def imports(node: ast.AST, place: str) -> Iterator[Import]:
    """Returns what is imported below a node, but for types alone, or where it may be missing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Try) and any(
            handler.type and re.search("ImportError|ModuleNotFoundError", ast.unparse(handler.type))
            for handler in child.handlers
        ):
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, place) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                one = f"{child.module}.{alias.name}"
                is_ours = str(child.module).split(".")[0] == "trireme"
                yield Import(one if is_ours and file_of(one) else str(child.module), place)
        elif isinstance(child, ast.FunctionDef) and ":" not in place:
            yield from imports(child, f"{place}:{child.name}")
        else:
            yield from imports(child, place)


def steps(image: str) -> Iterator[Import]:
    """Returns what the steps import that run in an image by default."""
    for face in sorted((ROOT / "trireme/components").glob("*/component.py")):
        for step in ast.parse(face.read_text()).body:
            if isinstance(step, ast.FunctionDef):
                (decorator,) = step.decorator_list
                if f"base_image={image}," in ast.unparse(decorator):
                    yield from imports(
                        step, f"trireme.components.{face.parent.name}.component:{step.name}"
                    )


def modules(names: Iterable[str]) -> Iterator[Import]:
    return (each for name in names for each in imports(tree_of(name), name))


WITH_REQUIREMENTS = ("lora", "perplexity", "texts")
"""Reference programs that need packages which a run installs, as their docstrings say."""


def trainers(framework: str) -> Iterator[Import]:
    """Returns what the reference programs import, but for each other."""
    files = sorted((ROOT / "trireme/components/trainers" / framework).glob("*.py"))
    names = {file.stem for file in files}
    for file in files:
        if file.stem not in ("mpi_classifier", *WITH_REQUIREMENTS):
            found = imports(ast.parse(file.read_text()), f"trireme.components.trainers.{file.stem}")
            yield from (each for each in found if each.name not in names)


def roots(image: str) -> list[Import]:
    """Returns what the programs import that run in an image."""
    match image:
        case "base":
            # Whose two last run before a training job's program.
            fetch = ("trireme.components.checkout.__main__", "trireme.components.dataset.__main__")
            return [*steps("BASE"), *modules(fetch)]
        case "pytorch":
            return [*steps("PYTORCH"), *trainers("pytorch")]
        case "tensorflow":
            # pipelines/training.py has these run here, for a model of TensorFlow.
            work = (
                "trireme.components.evaluation.evaluate",
                "trireme.components.export.export",
                "trireme.components.step",
            )
            return [*modules(work), *trainers("tensorflow")]
        case "jax" | "xgboost":
            return list(trainers(image))
    program = tree_of("trireme.components.trainers.pytorch.mpi_classifier")
    beside = ("helpers", "metrics", "classifier")
    found = imports(program, "trireme.components.trainers.pytorch.mpi_classifier")
    return [each for each in found if each.name not in beside]


def reached(image: str) -> tuple[set[Import], set[str]]:
    """Returns what is imported in an image of other people's, and which of NOT_THERE was met."""
    waiting, seen, others, met = roots(image), set(), set(), set()
    while waiting:
        each = waiting.pop()
        places = {each.place, each.place.partition(":")[0], each.name} & NOT_THERE[image]
        if places:
            met |= places
        elif each.top == "trireme":
            if each.name not in seen:
                seen.add(each.name)
                waiting += imports(tree_of(each.name), each.name)
        elif each.top not in sys.stdlib_module_names:
            others.add(each)
    return others, met


@pytest.mark.parametrize(("image", "lock"), [(one, lock) for one in LOCKS for lock in LOCKS[one]])
def test_an_image_holds_what_our_modules_import_there(image, lock):
    provided, there = packages_distributions(), held(lock)
    found, _ = reached(image)
    assert found
    lacking = {
        f"{each.place} imports {each.name}"
        for each in found
        if not there & {normal(name) for name in provided.get(each.top, [])}
    }
    assert sorted(lacking) == []


@pytest.mark.parametrize("image", LOCKS)
def test_what_is_said_not_to_run_in_an_image_is_reached_there(image):
    assert NOT_THERE[image] - reached(image)[1] == set()


def test_what_the_base_image_does_not_hold_is_brought_by_an_extra():
    provided, there = packages_distributions(), held("base")
    names = {
        each.top
        for folder in OURS
        for file in (ROOT / folder).rglob("*.py")
        if "trainers" not in file.parts
        for each in imports(ast.parse(file.read_text()), folder)
    }
    extra = {
        name
        # IPython is imported only where it runs already.
        for name in names - {"trireme", "IPython", *sys.stdlib_module_names}
        if not there & {normal(one) for one in provided.get(name, [])}
    }
    assert {"numpy", "torch", "scipy"} <= extra
    assert [name for name in sorted(extra) if not extras.of(name)] == []


def test_mlflow_without_the_rest_of_it_has_what_the_base_image_needs_and_refuses_in_its_own_words():
    there = held("base")
    hidden = [
        top
        for top, names in packages_distributions().items()
        if top not in ("trireme", "images", "tests")
        and not there & {normal(name) for name in names}
    ]
    assert {"sqlalchemy", "numpy", "pandas"} <= set(hidden)
    needed = sorted({each.name for each in reached("base")[0]})
    done = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps(needed), json.dumps(hidden)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout) == (0, "there is one\n"), done.stderr
