"""The frameworks, a file each: to add one is to add its file, or an entry point.

A file makes one or two ``base.Framework`` and lists them in ``FRAMEWORKS``; other packages have an
entry point for each.
"""

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from trireme import plugins
from trireme.frameworks.base import Framework
from trireme.frameworks.kinds import LEAST_REPLICAS, TRAINJOB, Kind

DEFAULT = "pytorch"

_FOUND = [
    *(
        framework
        for file in pkgutil.iter_modules(__path__)
        for framework in getattr(import_module(f"{__name__}.{file.name}"), "FRAMEWORKS", ())
    ),
    *plugins.every(plugins.FRAMEWORKS, Framework).values(),
]

FRAMEWORKS: dict[str, Framework] = {}
for _framework in sorted(_FOUND, key=lambda each: each.name != DEFAULT):
    FRAMEWORKS.setdefault(_framework.name, _framework)  # a name that is ours stays ours
"""By name, as a description has it; the default one is the first."""

_OF_KIND = {framework.kind.name: framework for framework in reversed(FRAMEWORKS.values())}

KINDS: dict[str, Kind] = {
    name: _OF_KIND[name].kind for name in [each.kind.name for each in FRAMEWORKS.values()]
} | {TRAINJOB.name: TRAINJOB}
"""What a job can be on a cluster, by name."""

IDLE = {role.name for each in FRAMEWORKS.values() for role in each.roles if role.is_idle}
"""Roles that do not compute, of any framework: what a task asks for is not meant for them."""


def of_kind(name: str) -> Framework | None:
    """Returns the framework that a kind is for; None for a TrainJob, which is for all."""
    return _OF_KIND.get(name)


def kind_of(job: Mapping[str, Any]) -> Kind:
    """Returns the kind of a job, from its manifest."""
    return KINDS[job["kind"]]


def pods_of(job: Mapping[str, Any]) -> str:
    """Returns the label selector of a job's pods."""
    return f"{kind_of(job).job_label}={job['metadata']['name']}"


def least_replicas(job: Mapping[str, Any]) -> int | None:
    """Returns how many replicas of a job have to run, where others may come and go."""
    if framework := of_kind(job["kind"]):
        return framework.least_replicas(job["spec"])
    annotation = (job["metadata"].get("annotations") or {}).get(LEAST_REPLICAS)
    return None if annotation is None else int(annotation)
