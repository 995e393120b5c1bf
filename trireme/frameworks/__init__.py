"""The frameworks, a file each: to add one is to add its file, or an entry point.

A file makes one or two ``base.Framework`` and lists them in ``FRAMEWORKS``; other packages have an
entry point for each.
"""

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from trireme import plugins
from trireme.frameworks.base import Framework, Role
from trireme.frameworks.kinds import FRAMEWORK, LEAST_REPLICAS, TRAINJOB, Kind

DEFAULT = "pytorch"

_OURS: list[Framework] = [
    framework
    for file in pkgutil.iter_modules(__path__)
    for framework in getattr(import_module(f"{__name__}.{file.name}"), "FRAMEWORKS", ())
]

_TYPES = {"name": str, "connects_by": str, "kind": Kind, "image": str, "injected": str}
_PATTERNS = ("injected", "inherited", "peer_lost", "report")
_kinds = {kind.name: kind for kind in (*(framework.kind for framework in _OURS), TRAINJOB)}


def _fault(name: str, added: Framework) -> str:
    """Returns what is wrong with a framework of another package; empty for nothing."""
    for attribute in Framework.__annotations__:
        if not hasattr(added, attribute):
            return f"it has no {attribute}"
    for attribute, expected in _TYPES.items():
        if not isinstance(getattr(added, attribute), expected):
            return f"its {attribute} is no {expected.__name__}"
    if added.name != name:
        return f"its name is {added.name!r}, which is not that of its entry point"
    roles: object = added.roles
    if not (isinstance(roles, tuple) and roles and all(isinstance(role, Role) for role in roles)):
        return "its roles are no tuple of Role"
    for attribute in _PATTERNS:
        try:
            re.compile(f"|{getattr(added, attribute)}")  # as it stands beside those of others
        except (re.error, TypeError) as error:
            return f"its {attribute} is no pattern: {error}"
    if not added.kind.replicas:
        return "its kind has no field for replicas"
    existing = _kinds.setdefault(added.kind.name, added.kind)
    differing = [
        field.name
        for field in fields(Kind)
        if getattr(existing, field.name) != getattr(added.kind, field.name)
    ]
    if differing:
        return f"the kind {existing.name} is there already, with another {' and '.join(differing)}"
    return ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(part, str) for item in value.items() for part in item
    )


def _are_variables(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(variable, Mapping)
        and isinstance(variable.get("name"), str)
        and ("valueFrom" in variable or isinstance(variable.get("value"), str))
        for variable in value
    )


_TEXTS = plugins.Result(_are_texts, "texts by names")
_VARIABLES = plugins.Result(_are_variables, "list of variables as in a container's env")
_RESULTS = {
    "environment": _TEXTS,
    "as_in_image": _TEXTS,
    "variables": _VARIABLES,
    "rendezvous": _VARIABLES,
}

_ADDED = plugins.every(
    plugins.FRAMEWORKS, Framework, [framework.name for framework in _OURS], _fault
)
for _name, _framework in _ADDED.items():
    _entry = plugins.found(plugins.FRAMEWORKS)[_name]
    plugins.guard(_framework, Framework, _entry, _RESULTS, passing={"check": ValueError})

FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        *sorted(_OURS, key=lambda framework: framework.name != DEFAULT),
        *_ADDED.values(),
    )
}
"""By name, as a description has it; the default one is the first."""

_OF_KIND = {framework.kind.name: framework for framework in reversed(FRAMEWORKS.values())}

KINDS: dict[str, Kind] = {
    name: _OF_KIND[name].kind for name in [framework.kind.name for framework in FRAMEWORKS.values()]
} | {TRAINJOB.name: TRAINJOB}
"""What a job can be on a cluster, by name."""

IDLE = {role.name for framework in FRAMEWORKS.values() for role in framework.roles if role.is_idle}
"""Roles that do not compute, of any framework: what a task asks for is not meant for them."""


def of_kind(name: str) -> Framework | None:
    """Returns the framework that a kind is for; None for a TrainJob, which is for all."""
    return _OF_KIND.get(name)


def framework_of(job: Mapping[str, Any]) -> Framework | None:
    """Returns the framework of a job, from its manifest; None for a TrainJob."""
    annotations = job["metadata"].get("annotations") or {}
    named = FRAMEWORKS.get(annotations.get(FRAMEWORK, ""))
    return named if named and named.kind.name == job["kind"] else of_kind(job["kind"])


def kind_of(job: Mapping[str, Any]) -> Kind:
    """Returns the kind of a job, from its manifest."""
    return KINDS[job["kind"]]


def pods_of(job: Mapping[str, Any]) -> str:
    """Returns the label selector of a job's pods."""
    return f"{kind_of(job).job_label}={job['metadata']['name']}"


def least_replicas(job: Mapping[str, Any]) -> int | None:
    """Returns how many replicas of a job have to run, where others may come and go."""
    if framework := framework_of(job):
        return framework.least_replicas(job["spec"])
    annotation = (job["metadata"].get("annotations") or {}).get(LEAST_REPLICAS)
    return None if annotation is None else int(annotation)
