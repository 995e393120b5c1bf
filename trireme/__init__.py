"""Distributed deep-learning training as pipelines: here, on Kubeflow, on Argo.

What a pipeline of one's own is built from: ``from trireme import checkout, dataset, train, ...``;
docs/tutorials/own-pipeline.md has a whole one. ``trireme.run`` runs a pipeline or a program,
``runs`` and ``get`` find what has run, ``compare_runs`` compares it, see docs/reference/python.md.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trireme.steps import (
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
    from trireme.targets.comparing import compare_runs
    from trireme.targets.handle import get, run, runs

# In a checkout the steps' faces, the pipelines and the trainers are folders beside this one. The
# links here are for editors: a ZIP file has none.
if not (Path(__file__).parent / "components").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

__all__ = [
    "WORKSPACE",
    "checkout",
    "choose",
    "compare",
    "compare_runs",
    "dataset",
    "deploy",
    "evaluate",
    "export",
    "finishing",
    "get",
    "good_enough",
    "plan_trials",
    "run",
    "runs",
    "tracked",
    "train",
    "trial",
]


def __getattr__(name: str) -> Any:
    """Loads what is asked for: kfp takes a second, and few commands need it."""
    if name not in __all__:
        raise AttributeError(f"module 'trireme' has no attribute {name!r}")
    modules = dict.fromkeys(("get", "run", "runs"), "targets.handle")
    modules["compare_runs"] = "targets.comparing"
    module = modules.get(name, "steps")
    return getattr(importlib.import_module(f"trireme.{module}"), name)


def __dir__() -> list[str]:
    """Returns what is meant for others, and none of the modules that happen to be loaded."""
    return __all__
