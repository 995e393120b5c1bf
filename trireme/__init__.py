"""Distributed deep-learning training as pipelines: here, on Kubeflow, on Argo.

What a pipeline of one's own is built from: ``from trireme import checkout, dataset, train, ...``;
docs/own-pipelines.md has a whole one.
"""

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
    "tracked",
    "train",
    "trial",
]


def __getattr__(name: str) -> Any:
    """Loads the steps when one is first asked for: kfp takes a second, and few commands need it."""
    if name not in __all__:
        raise AttributeError(f"module 'trireme' has no attribute {name!r}")
    from trireme.pipelines import steps

    return getattr(steps, name)
