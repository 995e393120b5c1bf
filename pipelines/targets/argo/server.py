"""Argo's own server: it alone has a workflow tried again, by rewriting what Argo knows of it.

It is found as Argo's command finds it, by ARGO_SERVER, ARGO_SECURE, ARGO_INSECURE_SKIP_VERIFY,
ARGO_BASE_HREF and ARGO_TOKEN, https://argo-workflows.readthedocs.io/en/stable/environment-variables/.
"""

import os
from typing import Any

import requests
from hera.exceptions import Forbidden, HeraException, Unauthorized
from hera.workflows.models import WorkflowRetryRequest
from hera.workflows.service import WorkflowsService

from trireme.components.errors import InputError, TriremeError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import WORKFLOWS
from trireme.pipelines.targets import workspaces
from trireme.pipelines.targets.argo import workflows

PATIENCE = 30.0  # seconds for an answer
# Argo takes an exit handler that has succeeded for done, and would leave the run open.
AGAIN = "templateName=finish"

_TRUE = ("1", "t", "T", "true", "TRUE", "True")  # as Go reads them


class _Session(requests.Session):
    """A session that does not wait for ever."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Sends a request."""
        return super().request(*args, timeout=PATIENCE, **kwargs)


def retry(cluster: Cluster, name: str) -> None:
    """Has a workflow tried again from the steps on that have failed."""
    workflows.find(cluster, name).check_resume()
    address = _address(name, cluster.namespace)
    workspaces.check(cluster, cluster.get(WORKFLOWS, name, cluster.namespace), name)
    try:
        _ask(address, name, cluster.namespace)
    except (Unauthorized, Forbidden) as error:
        raise InputError(
            f"Argo's server at {address} refuses: {error}; set ARGO_TOKEN to what 'argo auth "
            "token' prints"
        ) from None
    except (HeraException, requests.RequestException, ValueError) as error:
        # Also an answer that was lost, or that this version of Hera cannot read.
        if workflows.find(cluster, name).state in ("FAILED", "KILLED"):
            raise TriremeError(f"Argo's server at {address} failed: {error}") from None


def _ask(address: str, name: str, namespace: str) -> None:
    service = WorkflowsService(
        host=address,
        verify_ssl=os.environ.get("ARGO_INSECURE_SKIP_VERIFY") not in _TRUE,
        token=os.environ.get("ARGO_TOKEN"),
        session=_Session(),
    )
    request = WorkflowRetryRequest(
        name=name, namespace=namespace, restart_successful=True, node_field_selector=AGAIN
    )
    service.retry_workflow(name, request, namespace)


def _address(name: str, namespace: str) -> str:
    """Returns the server's URL, which ends with a slash."""
    server = os.environ.get("ARGO_SERVER")
    if not server:
        raise InputError(
            "ARGO_SERVER is not set, and only Argo's server can resume a run; set it to "
            f"HOST:PORT, or use Argo's own command: argo retry {name} -n {namespace} "
            f"--restart-successful --node-field-selector {AGAIN}"
        )
    scheme = "https" if os.environ.get("ARGO_SECURE", "true") in _TRUE else "http"
    base = os.environ.get("ARGO_BASE_HREF", "").strip("/")
    return f"{scheme}://{server}/{base}/" if base else f"{scheme}://{server}/"
