"""Real samples that a registered model can be asked about."""

import json

import numpy as np

from trireme.components.deployment.model_version import DownloadedModel, ModelVersion
from trireme.components.errors import InputError
from trireme.components.home import home
from trireme.components.training.result.trained import NotLoadable

SAMPLES = 64  # held-out samples that are sent


def request(downloaded: DownloadedModel) -> str:
    """Returns the body of a request with the example that was logged with a model.

    https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/#json-input
    """
    model, files, described = downloaded
    example = described.get_serving_input(str(files))
    if example is None:
        raise InputError(
            f"model {model.name!r}: version {model.version} was logged without an input_example, "
            "and only an answer to one shows that a server predicts"
        )
    return json.dumps(json.loads(example))


def body(inputs: np.ndarray) -> str:
    """Returns the body of a request for these inputs."""
    return json.dumps({"inputs": inputs.tolist()})


def at_hand(downloaded: DownloadedModel) -> list[np.ndarray]:
    """Returns the samples that are known for a model: those kept with it, and held-out ones.

    The held-out ones are there where the dataset it was trained on is still in the cache.
    """
    model, files, described = downloaded
    kept = described.load_input_example(str(files))
    if not isinstance(kept, np.ndarray):
        return []
    others = _held_out(model)
    # The model may take something else than what is in the dataset.
    if others is None or (others.dtype, others.ndim) != (kept.dtype, kept.ndim):
        return [kept]
    return [kept, others]


def _held_out(model: ModelVersion) -> np.ndarray | None:
    """Returns inputs of the held-out split of the dataset that a model was trained on."""
    from trireme.components.evaluation.held_out import held_out

    content = model.tags.get("dataset.fingerprint", "").removeprefix("sha256:")
    try:
        return held_out(home() / "cache" / "trees" / content)[0][:SAMPLES]
    except NotLoadable:
        return None
