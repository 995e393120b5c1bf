"""Refusals of Kubeflow Pipelines, as errors of one sentence."""

from trireme.kubernetes.errors import (
    AlreadyThere,
    Invalid,
    NotFound,
    Refused,
    Unauthorized,
    object_of,
)
from trireme.targets.kubeflow.client import ApiException


def refusal(error: ApiException, host: str) -> Refused:
    """Returns a server's no as an error of one sentence that says what to set."""
    message = message_of(error)
    if error.status == 401:
        return Unauthorized(
            f"Kubeflow Pipelines at {host} does not accept these credentials (401): set "
            "--token-file or KF_PIPELINES_SA_TOKEN_PATH to a file with a token that is valid now"
        )
    if error.status == 403:
        return Refused(
            f"Kubeflow Pipelines at {host} does not allow that (403: {message}); set --namespace "
            "to one of yours, or ask for the right"
        )
    if 300 <= error.status < 400:
        return not_kubeflow(host)
    if error.status == 404 and {"message", "error_message", "error"}.isdisjoint(object_of(error)):
        return not_kubeflow(host)
    kinds = {400: Invalid, 404: NotFound, 409: AlreadyThere}
    return kinds.get(error.status, Refused)(f"Kubeflow Pipelines refuses: {message}")


def not_kubeflow(host: str) -> Refused:
    """Returns the error for a server that answers, but not as Kubeflow Pipelines does."""
    return Refused(
        f"{host} does not answer as Kubeflow Pipelines does; set --endpoint to its URL (in a "
        "whole Kubeflow it ends in /pipeline), and give a token where one has to log in"
    )


def message_of(error: ApiException) -> str:
    """Returns what the server says about it, on one line."""
    body = object_of(error)
    text = body.get("error_message") or body.get("message") or body.get("error") or error.reason
    return " ".join(str(text).split()) or str(error.status)
