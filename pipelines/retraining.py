"""The pipeline that trains again when there is something new to learn from."""

from collections.abc import Collection
from typing import Any

from kfp import dsl

from trireme import steps
from trireme.deployment.kinds import check_kind
from trireme.images import of_framework
from trireme.kubernetes.connection import Cluster
from trireme.parameters import OF_A_SWEEP, pipeline
from trireme.pipelines import training

COMPARED = (
    *("framework", "job", "model_name", "warm_start", "force"),
    *("min_accuracy", "gate", "evaluation", "model_factory"),
)
"""Parameters by which it is told whether something has changed, besides those of the job."""


@pipeline(
    "retraining",
    "Retraining",
    without=OF_A_SWEEP,
    model_name="The registered model whose champion the new model has to beat.",
)
def retraining(given: dict[str, Any]) -> None:
    """Trains again if code, data or parameters have changed, and keeps the better model."""
    with steps.finishing("retraining", given["webhook_secret"]):
        code, data = training.prepare(given, given["framework"])
        compared = steps.compare(
            **{name: given[name] for name in (*training.JOB_PARAMETERS, *COMPARED)},
            commit=code.outputs["commit"],
            fingerprint=data.outputs["fingerprint"],
            base_model=data.outputs["base_model"],
            code=code.outputs["path"],
            data=data.outputs["path"],
        )
        with dsl.If(compared.outputs["changed"] == True, name="changed"):  # noqa: E712
            given["entrypoint"] = compared.outputs["entrypoint"]
            trained = steps.train(
                code,
                data,
                framework=given["framework"],
                start=compared.outputs["start"],
                **training.job_inputs(given),
            )
            image = compared.outputs["image"]
            training.evaluate_and_export(given, trained, code, data, image, given["deploy"])
        with (
            # The night before may have promoted it and then failed to deploy it.
            dsl.If(compared.outputs["changed"] == False, name="unchanged"),  # noqa: E712
            dsl.If(given["deploy"] != "", name="to-be-deployed"),
            dsl.If(compared.outputs["champion"] != "", name="champion"),
        ):
            steps.deploy(given["deploy"], given["model_name"])


def check(parameters: dict[str, Any], claims: Collection[str] | None = None) -> None:
    """Refuses parameters that could not work; on a cluster the pods have ``claims`` mounted."""
    of_framework(parameters["framework"], steps.IMAGES)
    training.check(parameters["framework"], parameters, claims)
    training.check_evaluated(parameters)
    if parameters["deploy"]:
        check_kind("deploy", parameters["deploy"])
        if claims is None:
            Cluster()  # refuses in a sentence where there is none


def trainings(parameters: dict[str, Any]) -> training.Trainings:
    """Returns the training that there is if something has changed."""
    return training.trainings(parameters["framework"], parameters)
