"""Experiments on Kubeflow Pipelines, which every run and every schedule belongs to."""

from typing import Any

from trireme.errors import InputError
from trireme.kubernetes.errors import AlreadyThere
from trireme.targets.kubeflow.connection import Connection

NAME_LIMIT = 128  # letters of a name that Kubeflow Pipelines keeps


def experiment_name(pipeline: str, arguments: dict[str, Any]) -> str:
    """Returns the name of the experiment that runs belong to."""
    name = str(arguments.get("experiment") or pipeline)
    if len(name) > NAME_LIMIT:
        raise InputError(
            f"experiment {name!r}: Kubeflow Pipelines takes at most {NAME_LIMIT} letters"
        )
    return name


def for_mlflow(name: str) -> dict[str, Any]:
    """Returns what Kubeflow Pipelines' MLflow plugin is told, which else has one for all runs."""
    return {"plugins_input": {"mlflow": {"experiment_name": name}}}


def find(connection: Connection, name: str) -> str:
    """Returns the id of an experiment; empty if there is none of that name."""
    experiments = _named(connection, name)
    return str(experiments[0].experiment_id) if experiments else ""


def ensure(connection: Connection, name: str) -> str:
    """Returns the id of an experiment, which is made if it is not there."""
    if existing := find(connection, name):
        return existing
    try:
        created = connection.ask(
            "experiments.experiment_service_create_experiment",
            experiment={"display_name": name} | connection.in_namespace(),
        )
        return str(created.experiment_id)
    except AlreadyThere:
        return str(_named(connection, name)[0].experiment_id)


def _named(connection: Connection, name: str) -> list[Any]:
    return connection.named("experiments.experiment_service_list_experiments", "experiments", name)
