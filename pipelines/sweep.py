"""The pipeline that trains many models and keeps the best."""

from collections.abc import Collection
from typing import Any

from kfp import dsl

from trireme.components.images import of_framework
from trireme.components.sweep import search_space
from trireme.pipelines import steps, training
from trireme.pipelines.parameters import pipeline

AT_ONCE = 4
"""Trainings that run at the same time; kfp takes no parameter for it. Here it is two at most."""


@pipeline(
    "sweep",
    "Sweep",
    without=("warm_start", "force", "deploy"),
    args="Its arguments in all trainings, a JSON list.",
    time_limit="Seconds that each training may take; 0 for no limit.",
    budget="The most that each training may cost, in the currency of the price table; 0 for no "
    "limit.",
)
def sweep(given: dict[str, Any]) -> None:
    """Trains many models with different parameters, and keeps the best if it is good enough.

    It is chosen by the samples in validation.npz or validation/x.npy and y.npy, where the dataset
    has them, otherwise by the held-out ones. A training that fails is told, and fails no run.
    """
    with steps.finishing("sweep", given["webhook_secret"]):
        code, data = training.prepare(given, given["framework"])
        listed = ("grid", "trials", "framework", "entrypoint")
        planned = steps.plan_trials(**{name: given[name] for name in listed})
        planned.after(data)
        image = planned.outputs["image"]
        with dsl.ParallelFor(planned.outputs["Output"], name="trials", parallelism=AT_ONCE) as one:
            inputs = {name: given[name] for name in ("framework", "model_factory")}
            tried = steps.trial(one, code, data, **inputs, **training.job_inputs(given))
            tried.set_container_image(image)
        chosen = steps.choose(tried)
        given["entrypoint"] = chosen.outputs["entrypoint"]
        training.evaluate_and_export(given, chosen.outputs["model"], code, data, image)


def check(parameters: dict[str, Any], claims: Collection[str] | None = None) -> None:
    """Refuses parameters that could not work, before anything is created."""
    of_framework(parameters["framework"], steps.IMAGES)
    trials = _trials(parameters)
    training.check(parameters["framework"], parameters | trials[0].parameters, claims)
    for trial in trials[1:]:
        if trial.parameters:
            training.trainings(parameters["framework"], parameters | trial.parameters)


def _trials(parameters: dict[str, Any]) -> list[search_space.Trial]:
    return search_space.trials(*(parameters[name] for name in ("grid", "trials", "entrypoint")))


def trainings(parameters: dict[str, Any]) -> training.Trainings:
    """Returns the trainings that a sweep makes."""
    trials = _trials(parameters)
    jobs = [
        training.trainings(parameters["framework"], parameters | trial.parameters).job
        for trial in trials
    ]
    largest = max(jobs, key=lambda job: job.world_size)
    return training.Trainings(largest, len(trials), min(AT_ONCE, len(trials)))
