"""Manifests through the typed models of the operators' and Kubernetes' own Python clients."""

import importlib
import importlib.util
import re
import sys
from types import ModuleType
from typing import Any

from kubernetes import client

PLAIN = {"str": str, "int": int, "bool": bool, "object": object, "float": float, "date": str}


def kubeflow_models() -> ModuleType:
    """Returns ``kubeflow.training.models`` without the client around it, which wants a cluster."""
    name = "kubeflow.training"
    if name not in sys.modules:
        spec = importlib.util.find_spec("kubeflow")
        package = ModuleType(name)
        package.__path__ = [f"{place}/training" for place in spec.submodule_search_locations]
        sys.modules[name] = package
    return importlib.import_module(f"{name}.models")


def through(model: str, data: Any) -> Any:
    """Returns data as a model gives it back, whose checks it has passed.

    Args:
        model: The name of a type, as in the models: ``V1Pod``, ``list[str]``, ``dict(str, int)``.
        data: The data.

    Raises:
        AssertionError: It is of another type, or has a field that the model does not know.
        ValueError: The model's own checks refuse it.
    """
    listed = re.fullmatch(r"list\[(.*)\]", model)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", model)
    if listed:
        assert isinstance(data, list), (model, data)
        return [through(listed[1], item) for item in data]
    if mapped:
        assert isinstance(data, dict), (model, data)
        return {key: through(mapped[1], value) for key, value in data.items()}
    if model in PLAIN:
        assert type(data) is PLAIN[model] or model == "object", (model, data)
        return data
    return _through_class(model, data)


def _through_class(model: str, data: dict[str, Any]) -> dict[str, Any]:
    kind = getattr(client, model, None) or getattr(kubeflow_models(), model)
    attributes = {field: attribute for attribute, field in kind.attribute_map.items()}
    unknown = set(data) - set(attributes)
    assert not unknown, f"{model} has no {unknown}"
    made = kind(
        **{
            attributes[field]: through(kind.openapi_types[attributes[field]], value)
            for field, value in data.items()
        }
    )
    return {
        field: getattr(made, attribute) for field, attribute in attributes.items() if field in data
    }
