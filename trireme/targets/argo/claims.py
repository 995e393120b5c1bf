"""Claims that a pipeline makes and removes itself, as kfp-kubernetes' CreatePVC and DeletePVC."""

from collections.abc import Mapping
from typing import Any

from hera.workflows import models

from trireme.targets.argo.expressions import Value, document, name_value, parameter
from trireme.targets.argo.refusals import NotOnArgo
from trireme.targets.argo.templates import Call

CREATE, DELETE = "argostub/createpvc", "argostub/deletepvc"
"""The images that stand for them: https://github.com/kubeflow/pipelines/tree/master/kubernetes_platform"""

_KNOWN = ("pvc_name", "pvc_name_suffix", "access_modes", "size", "annotations")
_FIELDS = {
    "storage_class_name": "storageClassName",
    "volume_name": "volumeName",
    "data_source": "dataSource",
}
"""Inputs of CreatePVC that are fields of a claim's specification."""


def template(call: Call, image: str) -> models.Template:
    """Returns the template of a task that makes or removes a claim."""
    claim: dict[str, Any] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    outputs = []
    if image == CREATE:
        for key in call.given.keys() - {*_KNOWN, *_FIELDS}:
            raise NotOnArgo(f"task {call.key}", f"the input {key} of CreatePVC")
        claim |= _claim({key: parameter(key) for key in call.given})
        outputs.append({"name": "name", "valueFrom": {"jsonPath": "{.metadata.name}"}})
    else:
        claim["metadata"] = {"name": parameter("pvc_name")}
    action = "create" if image == CREATE else "delete"
    return models.Template.model_validate(
        {
            "name": call.template,
            "inputs": {"parameters": [{"name": key} for key in call.given]},
            "outputs": {"parameters": outputs} if outputs else None,
            "resource": {"action": action, "manifest": document(claim)},
        }
    )


def _claim(fields: Mapping[str, Value]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": fields.get("pvc_name", name_value("pod.name"))}
    if "pvc_name_suffix" in fields:
        metadata["name"] = Value(f"pod.name + {fields['pvc_name_suffix'].native}")
    if "annotations" in fields:
        metadata["annotations"] = fields["annotations"]
    spec: dict[str, Any] = {
        "accessModes": fields["access_modes"],
        "resources": {"requests": {"storage": fields["size"]}},
    }
    for key in sorted(fields.keys() & _FIELDS.keys()):
        spec[_FIELDS[key]] = fields[key]
    return {"metadata": metadata, "spec": spec}
