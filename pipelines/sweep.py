"""The pipeline that trains many models and keeps the best."""

from collections.abc import Collection
from typing import Any

from kfp import dsl

from trireme import steps
from trireme.images import of_framework
from trireme.parameters import pipeline
from trireme.pipelines import training
from trireme.sweep import early_stopping, search_space

SEARCH = ("grid", "trials", "entrypoint", "search", "n_trials")
"""The parameters that say what is tried."""

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
        planned = steps.plan_trials(
            **{name: given[name] for name in (*SEARCH, "framework", "early_stopping")},
            at_once=AT_ONCE,
        )
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
    early_stopping.read(parameters["early_stopping"])
    first, *others = _of_jobs(parameters, _trials(parameters))
    training.check(parameters["framework"], parameters | first, claims)
    training.check_evaluated(parameters)
    for each in others:
        if each:
            training.trainings(parameters["framework"], parameters | each)
    listed = [each["entrypoint"] for each in parameters["trials"] if "entrypoint" in each]
    for program in dict.fromkeys([*parameters["grid"].get("entrypoint", []), *listed]):
        training.check_program("entrypoint", program, parameters, claims)


def _trials(parameters: dict[str, Any]) -> list[search_space.Trial]:
    return search_space.trials(**_search(parameters))


def _search(parameters: dict[str, Any]) -> dict[str, Any]:
    given = {name: parameters[name] for name in SEARCH}
    return given | {"listed": given.pop("trials")}


def _of_jobs(parameters: dict[str, Any], trials: list[search_space.Trial]) -> list[dict[str, Any]]:
    """Returns parameters of jobs that the trials have, or may come to."""
    found = [trial.parameters for trial in trials if not trial.is_searched]
    if trials[0].is_searched:
        given = _search(parameters)
        del given["n_trials"]
        found = search_space.extremes(search_space.space(**given)) + found
    return found


def trainings(parameters: dict[str, Any]) -> training.Trainings:
    """Returns the trainings that a sweep makes."""
    trials = _trials(parameters)
    jobs = [
        training.trainings(parameters["framework"], parameters | each).job
        for each in _of_jobs(parameters, trials)
    ]
    largest = max(jobs, key=lambda job: job.world_size)
    return training.Trainings(largest, len(trials), min(AT_ONCE, len(trials)))
