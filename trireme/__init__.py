"""Distributed deep-learning training as pipelines: here, on Kubeflow, on Argo.

What a pipeline of one's own is built from: ``from trireme import checkout, dataset, train, ...``;
docs/own-pipelines.md has a whole one. ``trireme.run`` runs a pipeline, see docs/python.md.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trireme.pipelines.steps import (
        WORKSPACE,
        checkout,
        choose,
        compare,
        dataset,
        deploy,
        evaluate,
        export,
        finishing,
        good_enough,
        plan_trials,
        tracked,
        train,
        trial,
    )
    from trireme.pipelines.targets.handle import run

__all__ = [
    "WORKSPACE",
    "checkout",
    "choose",
    "compare",
    "dataset",
    "deploy",
    "evaluate",
    "export",
    "finishing",
    "good_enough",
    "plan_trials",
    "run",
    "tracked",
    "train",
    "trial",
]


def __getattr__(name: str) -> Any:
    """Loads what is asked for: kfp takes a second, and few commands need it."""
    if name not in __all__:
        raise AttributeError(f"module 'trireme' has no attribute {name!r}")
    module = "targets.handle" if name == "run" else "steps"
    return getattr(importlib.import_module(f"trireme.pipelines.{module}"), name)
