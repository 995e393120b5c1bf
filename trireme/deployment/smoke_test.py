"""The smoke test of a scoring server: it has to answer real samples as the exported file does."""

import json
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np

from trireme.deployment.model_version import DownloadedModel
from trireme.deployment.serving import BODY_LIMIT, ServingFailed
from trireme.errors import InputError
from trireme.evaluation.held_out import held_out, predict_in_batches
from trireme.evaluation.onnx_file import load_onnx
from trireme.exporting.agreement import TOLERANCES, allowed, largest
from trireme.exporting.packaging import SAMPLE
from trireme.files.home import home
from trireme.models import language
from trireme.models.language import MODEL
from trireme.models.trained import NotLoadable
from trireme.tracking.model_versions import ModelVersion

SAMPLES = 64  # held-out samples that are sent
BATCH = 16  # samples in one request, where they are small
CHARACTERS = 25  # of a number in a request, with what is between two
SHOWN = 200  # characters of an answer that is none
WORDS = "U"  # the kind of arrays of them


class Predicting(Protocol):
    """What can be asked for predictions."""

    def answer(self, request: str) -> str:
        """Returns the answer to a request, both as MLflow's scoring server has them."""


class Certain(NamedTuple):
    """What of a language model's answers is the same however a server rounds.

    Attributes:
        texts: How each answer has to begin.
        whole: Whether that is all of it.
        tokens: How many tokens that is, in all answers.
        of: How many tokens these have.
        precision: The numbers that may be rounded so.
    """

    texts: list[str]
    whole: list[bool]
    tokens: int
    of: int
    precision: str


class Expected(NamedTuple):
    """What is sent to a server in one request, and the right answer; None where any is right.

    Attributes:
        request: The request as it was logged, where it is not made of the inputs.
        certain: Of a language model what of its answers is certain; None: all of them.
    """

    inputs: np.ndarray
    outputs: np.ndarray | None
    request: str = ""
    certain: Certain | None = None


class Agreement(NamedTuple):
    """How well a server agrees with the exported file.

    Attributes:
        words: How well a language model's answers agree; empty for another model.
    """

    difference: float
    allowed: float
    samples: int
    words: str = ""

    def __str__(self) -> str:
        if self.words:
            return self.words
        if not self.samples:
            return "answers; its outputs are not numbers that could be compared"
        return (
            f"agrees with its file: largest difference {self.difference:.2g} on {self.samples} "
            f"samples, allowed {self.allowed:.2g}"
        )


def expected_answers(downloaded: DownloadedModel) -> list[Expected]:
    """Returns the samples that are at hand for a model, with the answers of its ONNX file.

    A model that was not converted was asked when it was packaged; its answers are kept with it.

    The first is a request of its own, the others go together: both have to be right.
    """
    model, files, described = downloaded
    if kept_answers := _kept_answers(files):
        inputs, outputs = kept_answers["inputs"], kept_answers["outputs"]
        parts = (slice(0, 1), slice(1, None)) if len(inputs) > 1 else (slice(0, 1),)
        return [
            Expected(
                inputs[part],
                outputs[part],
                certain=certain_of(
                    outputs[part],
                    kept_answers["margins"][part],
                    kept_answers["ends"][part],
                    files / MODEL,
                )
                if "margins" in kept_answers
                else None,
            )
            for part in parts
        ]
    if "onnx" not in described.flavors:  # it has to answer at all
        logged = request(downloaded)
        return [Expected(np.asarray(json.loads(logged).get("inputs")), None, logged)]
    batches = list(_batches(samples_of(downloaded)))
    if not batches:
        raise InputError(f"{model} was logged without an input_example that is one array")
    answer = load_onnx(files / described.flavors["onnx"]["data"])
    answers = [np.asarray(predict_in_batches(answer, inputs)) for inputs in batches]
    if answers[0].dtype.kind not in "fiu":
        raise InputError(f"{model} answers with {answers[0].dtype}, not numbers")
    return list(starmap(Expected, zip(batches, answers, strict=True)))


def certain_of(outputs: np.ndarray, margins: np.ndarray, ends: np.ndarray, model: Path) -> Certain:
    """Returns what of answers is certain: all before the first token that rounding may change.

    Two logits may each be off by what is accepted of an exported file. A server may compute with
    fewer bits than the file has: vLLM does so with float32, in float16. How vLLM itself is tested:
    https://github.com/vllm-project/vllm/blob/main/tests/models/utils.py, check_logprobs_close.

    Args:
        margins: Of each token, see ``trireme/exporting/answering.py``; NaN where there is none.
        ends: How many characters an answer has with each token.
        model: The folder of transformers.
    """
    precision = language.precision(model)
    if precision in ("float64", "float32"):
        precision = "float16"
    may_change = margins <= 2 * TOLERANCES[".onnx"][precision]
    are_there = ~np.isnan(margins)
    first = np.where(may_change.any(axis=1), may_change.argmax(axis=1), are_there.sum(axis=1))
    texts = [
        str(output)[: end[number - 1]] if number else ""
        for output, end, number in zip(outputs, ends, first, strict=True)
    ]
    whole = [not any(tokens) for tokens in may_change.tolist()]
    return Certain(texts, whole, int(first.sum()), int(are_there.sum()), precision)


def _kept_answers(files: Path) -> dict[str, np.ndarray] | None:
    """Returns what a packaged model was asked and has answered; None where that was not kept."""
    try:
        with np.load(files / SAMPLE) as arrays:
            if {*arrays.files} in ({"inputs", "outputs"}, {"inputs", "outputs", "margins", "ends"}):
                return {name: arrays[name] for name in arrays.files}
    except (FileNotFoundError, AttributeError, EOFError, TypeError, ValueError, BadZipFile):
        pass  # a file of that name is the user's own
    return None


def compare(server: Predicting, pairs: list[Expected]) -> Agreement:
    """Sends every sample to a server, and compares its answers."""
    differences, size, samples = [0.0], 0.0, 0
    compared: list[tuple[Certain, int]] = []
    for inputs, outputs, logged, certain in pairs:
        answer = _first_output(server.answer(logged or body(inputs)))
        if certain and outputs is not None:
            compared.append((certain, _same_words(inputs, answer, outputs, certain)))
            samples += len(inputs)
        elif outputs is not None:
            differences.append(_difference(answer, outputs))
            if outputs.dtype.kind != WORDS:
                size = max(size, largest(outputs))
            samples += len(inputs)
    difference, limit = float(np.max(differences)), allowed(size)
    if not difference <= limit:  # also when it is not a number
        raise ServingFailed(
            "the server's outputs differ from the exported file's: largest difference "
            f"{difference:.3g}, allowed {limit:.3g}"
        )
    return Agreement(difference, limit, samples, _in_words(compared, samples))


def _same_words(inputs: np.ndarray, answer: Any, outputs: np.ndarray, certain: Certain) -> int:
    """Refuses answers that are others where they are certain; returns how many are the same."""
    if not isinstance(answer, list) or len(answer) != len(outputs):
        raise ServingFailed(f"the server returns no answers: {str(answer)[:SHOWN]}")
    for question, reply, right, is_whole in zip(
        inputs, answer, certain.texts, certain.whole, strict=True
    ):
        # Whether an answer begins with a space is a matter of how it is decoded.
        words, begins = str(reply).lstrip(), right.lstrip()
        if words != begins if is_whole else not words.startswith(begins):
            raise ServingFailed(
                f"the server answers {str(question)[:SHOWN]!r} with {words[:SHOWN]!r}, where the "
                f"exported model says {begins[:SHOWN]!r}"
            )
    return sum(
        str(reply).strip() == str(right).strip()
        for reply, right in zip(answer, outputs, strict=True)
    )


def _in_words(compared: list[tuple[Certain, int]], samples: int) -> str:
    if not compared:
        return ""
    tokens, of = (
        sum(getattr(certain, name) for certain, _ in compared) for name in ("tokens", "of")
    )
    same, precision = sum(same for _, same in compared), compared[0][0].precision
    if not same and not tokens:
        return (
            f"answers; whether it agrees with its file is not known, as {precision} may change "
            f"each of the {samples} answers from its first token on, and none is the same"
        )
    return (
        f"agrees with its file: {same} of {samples} answers are the same, and of their {of} "
        f"tokens all {tokens} that {precision} cannot change"
    )


def _batches(samples: list[np.ndarray]) -> Iterator[np.ndarray]:
    for inputs in samples:
        yield inputs[:1]
        size = min(BATCH, max(1, BODY_LIMIT // (CHARACTERS * max(1, inputs[:1].size))))
        for start in range(1, len(inputs), size):
            yield inputs[start : start + size]


def _difference(answer: Any, expected: np.ndarray) -> float:
    """Returns the largest difference of numbers; of words, the share that is not the same."""
    are_words = expected.dtype.kind == WORDS
    try:
        outputs = np.asarray(answer, dtype=str if are_words else np.float64)
    except (TypeError, ValueError):
        raise ServingFailed(f"the server returns no numbers: {str(answer)[:SHOWN]}") from None
    if outputs.shape != expected.shape:
        raise ServingFailed(
            f"the server returns the shape {outputs.shape}, the exported file {expected.shape}"
        )
    if are_words:
        return float((outputs != expected).mean())
    with np.errstate(invalid="ignore"):
        return float(np.where(outputs == expected, 0.0, np.abs(outputs - expected)).max())


def _first_output(answer: str) -> Any:
    """Returns a model's output; of an ONNX model, which MLflow answers by name, the first."""
    try:
        predictions = json.loads(answer)["predictions"]
        if isinstance(predictions, dict):
            return next(iter(predictions.values()))
        if isinstance(predictions, list) and predictions and isinstance(predictions[0], dict):
            return [[*row.values()] for row in predictions]  # a table
        return predictions
    except (KeyError, TypeError, ValueError, StopIteration, AttributeError):
        raise ServingFailed(f"the server returns no predictions: {answer[:SHOWN]}") from None


def request(downloaded: DownloadedModel) -> str:
    """Returns the body of a request with the example that was logged with a model.

    https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/#json-input
    """
    model, files, described = downloaded
    example = described.get_serving_input(str(files))
    if example is None:
        raise InputError(
            f"model {model.name!r}: version {model.version} was logged without an input_example, "
            "which is needed to check that a server predicts"
        )
    return json.dumps(json.loads(example))


def body(inputs: np.ndarray) -> str:
    """Returns the body of a request for these inputs."""
    if names := inputs.dtype.names:  # rows of a table
        return json.dumps({"dataframe_split": {"columns": names, "data": inputs.tolist()}})
    return json.dumps({"inputs": inputs.tolist()})


def samples_of(downloaded: DownloadedModel) -> list[np.ndarray]:
    """Returns the samples that are known for a model: those kept with it, and held-out ones.

    The held-out ones are there where the dataset it was trained on is still in the cache.
    """
    model, files, described = downloaded
    example = described.load_input_example(str(files))
    if not isinstance(example, np.ndarray):
        return []
    others = _held_out(model)
    # The model may take something else than what is in the dataset, such as channels last.
    if others is None or (others.dtype, others.shape[1:]) != (example.dtype, example.shape[1:]):
        return [example]
    return [example, others]


def _held_out(model: ModelVersion) -> np.ndarray | None:
    """Returns inputs of the held-out split of the dataset that a model was trained on."""
    content = model.tags.get("dataset.fingerprint", "").removeprefix("sha256:")
    try:
        return held_out(home() / "cache" / "trees" / content)[0][:SAMPLES]
    except NotLoadable:
        return None
