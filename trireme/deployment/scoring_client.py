"""Asking one pod for predictions, through the API server."""

import json
import time
from typing import Any

import numpy as np

from trireme.deployment.manifests import PORT, SMOKE_TEST
from trireme.deployment.openai_api import NoAnswer, OpenAIApi
from trireme.deployment.pod_problems import Pod
from trireme.deployment.serving import ServingFailed
from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import PODS

SHOWN = 200  # characters of an answer that is none
PATIENCE = 15.0  # seconds that a pod which is ready may not answer

# https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
DATATYPES = {
    "bool": "BOOL",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}


class ScoringClient:
    """A pod with MLflow's scoring server; not the Service, which the old pods answer as well."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._cluster, self._name = cluster, pod["metadata"]["name"]
        self._end = time.monotonic() + SMOKE_TEST

    def answer(self, request: str) -> str:
        """Returns the answer to a request."""
        return json.dumps(self._ask("invocations", json.loads(request)))

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        # https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/
        proxy = PODS.path(self._cluster.namespace, f"{self._name}:{PORT}", f"proxy/{path}")
        left = self._end - time.monotonic()
        if left <= 0:
            raise ServingFailed(f"pod {self._name} takes more than {SMOKE_TEST} s for the samples")
        try:
            answer: dict[str, Any] = self._cluster.request(
                "POST", PODS, proxy, body=body, patience=min(PATIENCE, left)
            )
        except TriremeError as error:
            # It is the pod that finds the request invalid, and MLflow adds a traceback.
            reason = str(error).removeprefix("the cluster finds it invalid: ")
            reason = reason.partition(" Traceback (most recent call last)")[0]
            raise ServingFailed(f"pod {self._name} does not predict: {reason}") from None
        return answer


class ChatClient(ScoringClient):
    """A pod that serves a language model.

    Args:
        api: How it is asked.
        below: What comes before the API's paths, as with KServe.
    """

    def __init__(self, cluster: Cluster, pod: Pod, api: OpenAIApi, below: str = "") -> None:
        super().__init__(cluster, pod)
        self._api, self._path = api, f"{below}{api.path.removeprefix('/')}"

    def answer(self, request: str) -> str:
        """Returns the answer to a request, both in the form of MLflow's scoring server."""
        try:
            return self._api.answer(request, lambda body: self._ask(self._path, body))
        except NoAnswer as error:
            raise ServingFailed(f"pod {self._name}: {error}") from None


class OpenInferenceClient(ScoringClient):
    """A pod of KServe's, which speaks the Open Inference Protocol (v2).

    Args:
        model: The name by which it serves the model.
        name: The name of the model's input.
    """

    def __init__(
        self, cluster: Cluster, pod: Pod, model: str, name: str, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(cluster, pod)
        self._model, self._input, self._dtype = model, name, dtype

    def answer(self, request: str) -> str:
        """Returns the answer to a request, both in the form of MLflow's scoring server."""
        inputs = np.asarray(json.loads(request)["inputs"], dtype=self._dtype)
        tensor = {
            "name": self._input,
            "shape": list(inputs.shape),
            "datatype": DATATYPES[self._dtype.name],
            "data": inputs.ravel().tolist(),
        }
        answer = self._ask(f"v2/models/{self._model}/infer", {"inputs": [tensor]})
        try:
            outputs = {
                output["name"]: np.reshape(output["data"], output["shape"]).tolist()
                for output in answer["outputs"]
            }
        except (KeyError, TypeError, ValueError):
            raise ServingFailed(
                f"pod {self._name} does not predict: it answers {str(answer)[:SHOWN]}"
            ) from None
        return json.dumps({"predictions": outputs})
