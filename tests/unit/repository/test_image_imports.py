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
from trireme.process import extras

ROOT = Path(trireme.__file__).parents[1]
OURS = ("trireme", "components", "pipelines")

LOCKS = {
    "base": ("base",),
    "pytorch": ("pytorch-cpu", "pytorch-cuda"),
    "tensorflow": ("tensorflow-cpu", "tensorflow-cuda"),
    "mpi": ("pytorch-cpu", "pytorch-cuda"),
    "jax": ("jax",),
    "xgboost": ("xgboost",),
}
"""What says which packages an image holds; no program of ours runs in the image mlflow."""

# Their packages are among those that their run requires.
LANGUAGE_MODELS = {
    "trireme.exporting.answering:_language_model",
    "trireme.exporting.language:_fitting",
    "trireme.exporting.language:merge",
    "trireme.exporting.language:save",
}

NOT_THERE = {
    "base": {
        # The step finish says so in a sentence: the one step here that may come to it.
        "trireme.tracking.sync:_log_onnx",
        "trireme.tracking.sync:_signature",
        # Only 'trireme run' makes the store of a machine.
        "trireme.tracking.store:make",
        # Without SQLAlchemy a database is refused before.
        "trireme.tracking.store:_check_database",
        # Without TensorBoard event files are not read, which a sentence says.
        "trireme.files.event_scalars:_all",
    },
    # A model is loaded by the framework that it was made with.
    "pytorch": {
        *LANGUAGE_MODELS,
        "trireme.exporting.answering:_saved_model",
        "trireme.exporting.tensorflow",
        "trireme.files.event_scalars:_all",  # see above
        "trireme.models.tensorflow",
    },
    "tensorflow": {
        *LANGUAGE_MODELS,
        "trireme.exporting.answering:_program",
        "trireme.exporting.pytorch",
        "trireme.models.pytorch",
        "trireme.models.sharded",
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
from trireme.tracking.client import patiently

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


def trainers(*programs: str) -> Iterator[Import]:
    """Returns what reference programs, and the files that they name, import but for each other."""
    waiting, seen = [*programs], set(programs)
    while waiting:
        name = f"trireme.trainers.{waiting.pop()}"
        for each in imports(tree_of(name), name):
            if not file_of(f"trireme.trainers.{each.name}"):
                yield each
            elif each.name not in seen:
                seen.add(each.name)
                waiting.append(each.name)


def roots(image: str) -> list[Import]:
    """Returns what the programs import that run in an image."""
    match image:
        case "base":
            # Whose two last run before a training job's program.
            fetch = ("trireme.code.__main__", "trireme.data.__main__")
            return [*steps("BASE"), *modules(fetch)]
        case "pytorch":
            return [*steps("PYTORCH"), *trainers("pytorch_classifier", "language_model")]
        case "tensorflow":
            # pipelines/training.py has these run here, for a model of TensorFlow.
            work = (
                "trireme.evaluation.evaluate",
                "trireme.exporting.export",
                "trireme.tracked_step",
            )
            return [*modules(work), *trainers("tensorflow_classifier")]
        case "jax" | "xgboost":
            return list(trainers(f"{image}_classifier"))
    return list(trainers("mpi_classifier"))


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
