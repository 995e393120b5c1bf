"""A model that is kept in its own form: packaged as the MLflow model that its library loads.

Nothing is loaded to be packaged, so a pickle stays a pickle; what MLflow has to know of each form
is written beside it (https://mlflow.org/docs/latest/ml/model/#storage-format).
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trireme.errors import StepFailed, first_line
from trireme.evaluation.source import Source
from trireme.exporting import language
from trireme.exporting.answering import DESCRIPTION
from trireme.exporting.isolated import isolated
from trireme.models.language import architecture
from trireme.models.trained import NotLoadable

SAMPLE = "sample.npz"

LOADER = "_load_pyfunc"
"""What MLflow calls a module's function that loads a model."""

PLAIN = "kept as plain files, which no server loads"

_BY_JOBLIB = f"from joblib import load as {LOADER}\n"

TASKS = {
    "ForCausalLM": "text-generation",
    "ForConditionalGeneration": "text2text-generation",
    "ForImageClassification": "image-classification",
    "ForMaskedLM": "fill-mask",
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "LMHeadModel": "text-generation",  # GPT-2's, and others of its time
}
"""Tasks of Hugging Face's pipelines by the ends of their architectures' names."""

OF_TEXT = ("text-classification", "text2text-generation", "token-classification")
TEXT = ["An example."]
"""What models of these tasks are asked, so that their signature and their requests are known."""


class Package(NamedTuple):
    """A model in its own form.

    Attributes:
        flavor: What MLflow loads it as; empty for files that only their owner can load.
        note: What a person should know of it.
        difference: Of a language model, the largest of its logits from those of what was trained.
    """

    flavor: str
    note: str
    difference: float = 0.0

    @property
    def words(self) -> str:
        """Both, as a person reads them."""
        form = {"": "", "mlflow": "an MLflow model"}.get(self.flavor, f"MLflow's {self.flavor}")
        return ", ".join(filter(None, (form, self.note)))


def package(source: Source, inputs: np.ndarray | None, destination: Path, why: str) -> Package:
    """Makes of what a training program left a directory that MLflow takes as a model.

    Args:
        source: What it left, and its code; of factories only ``module:_load_pyfunc`` counts, which
            loads the model.
        inputs: Real inputs, if any are known: the package has to answer them.
        why: Why it was not converted, which is told of a form that could have been.
    """
    shutil.rmtree(destination, ignore_errors=True)
    if language.is_adapter(source.model):
        language.merge(source.model, source.base_model, destination)
    else:
        shutil.copytree(_saved_by_mlflow(source.model) or source.model, destination)
    is_language_model = not source.factory and _task(destination) == language.TASK
    try:
        if is_language_model:
            return _language_model(destination, source.base_model, inputs)
        flavor = _describe(destination, source)
    except language.Differs:
        raise
    except Exception as error:  # libraries raise whatever they like
        return Package("", f"{PLAIN}: {first_line(error)}")
    if not flavor:
        return Package("", f"{PLAIN}: {_unknown(destination, source, why)}")
    if inputs is None:
        return Package(flavor, "")
    inputs_file = f"inputs.{'json' if inputs.dtype.kind in 'UV' else 'npy'}"
    if flavor == "transformers":
        return Package(flavor, f"not asked for its answers to {inputs_file}")
    try:
        _try(destination, inputs)
    except StepFailed as error:
        return Package(flavor, f"does not answer {inputs_file} through MLflow: {error}")
    return Package(flavor, f"answers {inputs_file} through MLflow")


def _saved_by_mlflow(model: Path) -> Path | None:
    """Returns the folder that MLflow has saved in MODEL_DIR, if it is one."""
    folders = [file.parent for file in model.glob(f"*/{DESCRIPTION}")]
    return folders[0] if len(folders) == 1 and not (model / DESCRIPTION).exists() else None


def _unknown(directory: Path, source: Source, why: str) -> str:
    """Says of which form a model is that no library is known for."""
    if name := architecture(directory):
        return f"the task of {name} is not known"
    if source.factory:
        return f"it cannot be built by model_factory {source.factory}"
    with suppress(NotLoadable):
        return f"a {source.framework} model that is not converted: {why}"
    files = sorted(file.name for file in directory.rglob("*") if file.is_file())
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return f"no library is known that loads {', '.join(files[:3])}{more}"


def _describe(directory: Path, source: Source) -> str:
    """Adds MLflow's description to a model's files; returns the flavor, empty for none."""
    if (directory / DESCRIPTION).is_file():
        return "mlflow"
    module, _, function = source.factory.partition(":")
    if function == LOADER:
        code = _free(directory / "code")
        without_git = shutil.ignore_patterns(".git")
        # A link may lead to data that are elsewhere by now.
        shutil.copytree(source.code, code, ignore=without_git, ignore_dangling_symlinks=True)
        beside = (code / source.entrypoint).parent  # where its program imports from, too
        folder = next(iter(beside.glob(f"{module}.py")), code / "any").parent
        loads = {"loader_module": module, "data": ".", "code": str(folder.relative_to(directory))}
        _write(directory, "python_function", {}, **loads)
        return "python_function"
    if task := _task(directory):
        return _save_transformers(directory, task)
    files = [file for file in directory.iterdir() if file.is_file()]
    files.sort(key=lambda file: (file.stem != "model", file.name))  # not the encoder beside it
    for file in files:
        if file.suffix == ".joblib":  # which no flavor of MLflow's reads
            code = _free(directory / "code")
            code.mkdir()
            (code / "by_joblib.py").write_text(_BY_JOBLIB)
            loads = {"loader_module": "by_joblib", "data": file.name, "code": code.name}
            _write(directory, "python_function", {}, **loads)
            return "python_function"
    for flavor, describe in _LIBRARIES.items():
        for file in files:
            if about := describe(file):
                key = "model_path" if flavor == "sklearn" else "data"
                loads = {"loader_module": f"mlflow.{flavor}", key: file.name}
                if flavor == "sklearn":
                    loads["predict_fn"] = "predict"
                _write(directory, flavor, about, **loads)
                return flavor
    return ""


def _free(path: Path) -> Path:
    """Returns a path that is not there, of about this name."""
    while path.exists():
        path = path.with_name(f"{path.name}-of-run")
    return path


def _write(directory: Path, flavor: str, about: dict[str, Any], **loads: str) -> None:
    from mlflow.models import Model
    from mlflow.pyfunc import add_to_model

    description = Model()
    add_to_model(description, **loads)
    if about:
        description.add_flavor(flavor, code=None, **about)
    description.save(str(directory / DESCRIPTION))


def _task(directory: Path) -> str:
    """Returns what a folder of Hugging Face's does; empty where it is none, or not known."""
    name = architecture(directory)
    return next((task for end, task in TASKS.items() if name.endswith(end)), "")


def _save_transformers(directory: Path, task: str) -> str:
    import mlflow.transformers

    transformers = import_module("transformers")  # the user's, where it is installed
    with _replaced(directory) as original:
        # Not its path, which MLflow takes of Transformers before 5 alone. No code of it is run.
        mlflow.transformers.save_model(
            transformers.pipeline(task, model=str(original)),
            str(directory),
            input_example=TEXT if task in OF_TEXT else None,
            pip_requirements=[f"{name}=={version(name)}" for name in ("transformers", "torch")],
        )
    return "transformers"


def _language_model(directory: Path, base: str, inputs: np.ndarray | None) -> Package:
    """Packages a language model, as a whole folder of transformers; it has to answer again."""
    with _replaced(directory) as original:
        language.save(original, directory, inputs)
        try:
            answers = language.ask(original, base, directory, inputs)
        except language.Differs:
            raise
        except StepFailed as error:
            return Package("transformers", f"does not answer when it is loaded back: {error}")
    kept = answers.kept
    np.savez(
        directory / SAMPLE,
        inputs=kept["inputs"],
        outputs=kept["outputs"],
        margins=kept["margins"],
        ends=kept["ends"],
    )
    questions = f"{len(kept['inputs'])} questions"
    note = f"answers {questions} as what was trained does, logits within {answers.difference:.1e}"
    return Package("transformers", note, answers.difference)


@contextmanager
def _replaced(directory: Path) -> Iterator[Path]:
    """Sets a folder aside, for another in its place; it comes back where there is none."""
    original = directory.with_name(f"{directory.name}.original")
    shutil.rmtree(original, ignore_errors=True)  # of an attempt that was killed
    directory.rename(original)
    try:
        yield original
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        original.rename(directory)
        raise
    shutil.rmtree(original)


def _try(directory: Path, inputs: np.ndarray) -> None:
    """Has the package answer in a process of its own, and keeps what it answered."""
    from mlflow.models import Model, infer_signature

    with isolated("mlflow.pyfunc") as reloaded:
        (outputs,) = reloaded(directory / DESCRIPTION, [inputs])
    if not (directory / SAMPLE).exists():  # the user's own, which the model may need
        np.savez(directory / SAMPLE, inputs=inputs, outputs=outputs)
    description = Model.load(str(directory))
    about = {
        "artifact_path": "input_example.json",
        "serving_input_path": "serving_input_example.json",
    }
    signature_inputs: Any = inputs
    if names := inputs.dtype.names:
        import pandas

        signature_inputs = pandas.DataFrame.from_records(inputs)
        rows: dict[str, Any] = {"columns": list(names), "data": inputs[:2].tolist()}
        example, served = rows, {"dataframe_split": rows}
        about |= {"type": "dataframe", "pandas_orient": "split"}
    else:
        example = served = {"inputs": inputs[:2].tolist()}
        about |= {"type": "ndarray", "format": "tf-serving"}
    (directory / "input_example.json").write_text(json.dumps(example))
    (directory / "serving_input_example.json").write_text(json.dumps(served))
    description.saved_input_example_info = about
    description.signature = description.signature or infer_signature(signature_inputs, outputs)
    description.save(str(directory / DESCRIPTION))


def _xgboost(file: Path) -> dict[str, Any]:
    start = _start_of(file)
    if file.suffix not in (".ubj", ".json", ".xgb", ".model") or b"learner" not in start:
        return {}
    return {
        "data": file.name,
        "model_class": "xgboost.core.Booster",
        "model_format": "json" if start.startswith(b'{"') else "ubj",
        "xgb_version": _version("xgboost", "xgboost-cpu"),
    }


def _lightgbm(file: Path) -> dict[str, Any]:
    if not _start_of(file).startswith(b"tree\nversion="):
        return {}
    return {
        "data": file.name,
        "model_class": "lightgbm.basic.Booster",
        "lgb_version": _version("lightgbm"),
    }


def _sklearn(file: Path) -> dict[str, Any]:
    form = {".pkl": "pickle", ".pickle": "pickle", ".skops": "skops"}.get(file.suffix)
    if not form:
        return {}
    trusted = {"skops_trusted_types": _trusted(file)} if form == "skops" else {}
    return trusted | {
        "pickled_model": file.name,
        "serialization_format": form,
        "sklearn_version": _version("scikit-learn"),
    }


def _trusted(file: Path) -> list[str]:
    """Returns the types of scikit-learn's own that skops would not load unasked, as of trees."""
    types: list[str] = import_module("skops.io").get_untrusted_types(file=file)  # loads nothing
    return [name for name in types if name.startswith("sklearn.")]


def _onnx(file: Path) -> dict[str, Any]:
    if file.suffix != ".onnx":
        return {}
    return {
        "data": file.name,
        "onnx_version": _version("onnx"),
        "providers": ["CPUExecutionProvider"],
    }


_LIBRARIES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "onnx": _onnx,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "sklearn": _sklearn,
}
"""By MLflow's names of their flavors: what a file of theirs is described by; nothing for others."""


def _start_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4096)


def _version(*distributions: str) -> str:
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
