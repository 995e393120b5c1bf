"""Argo's own server: it alone has a workflow tried again, by rewriting what Argo knows of it.

It is found as Argo's command finds it, by ARGO_SERVER, ARGO_SECURE, ARGO_INSECURE_SKIP_VERIFY,
ARGO_BASE_HREF and ARGO_TOKEN, https://argo-workflows.readthedocs.io/en/stable/environment-variables/,
and in the cluster where ARGO_SERVER is not set.
"""

import os
from typing import Any, NamedTuple

import requests
from hera.exceptions import Forbidden, HeraException, Unauthorized
from hera.workflows.models import WorkflowRetryRequest
from hera.workflows.service import WorkflowsService

from trireme.errors import InputError, TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Refused
from trireme.kubernetes.resources import SERVICES, WORKFLOWS
from trireme.targets import workspaces
from trireme.targets.argo import workflows

PATIENCE = 30.0  # seconds for an answer
# Argo takes an exit handler that has succeeded for done, and would leave the run open.
AGAIN = "templateName=finish"

NAMES = ("argo-server", "argo-workflows-server")
"""What Argo's manifests and its Helm chart call the server's Service."""

NAMESPACES = ("argo", "argo-workflows")
"""Where it is searched besides the run's namespace: whom it finds gets the user's token."""

_TRUE = ("1", "t", "T", "true", "TRUE", "True")  # as Go reads them


class _Session(requests.Session):
    """A session that does not wait for ever, and sees servers by ``verify``."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Sends a request."""
        return super().request(*args, **kwargs | {"timeout": PATIENCE, "verify": self.verify})


class _Server(NamedTuple):
    """How Argo's server is reached: its URL, which ends with a slash, by a session and a token."""

    address: str
    session: _Session
    token: str | None


def retry(cluster: Cluster, name: str) -> None:
    """Has a workflow tried again from the steps on that have failed."""
    workflows.find(cluster, name).check_resume()
    server = _named() or _in_cluster(cluster) or _missing(name, cluster.namespace)
    workspaces.check(cluster, cluster.get(WORKFLOWS, name, cluster.namespace), name)
    try:
        _ask(server, name, cluster.namespace)
    except (Unauthorized, Forbidden) as error:
        raise InputError(
            f"Argo's server at {server.address} refuses: {error}; set ARGO_TOKEN to what 'argo "
            "auth token' prints, or to the token of a service account that may change workflows"
        ) from None
    except (HeraException, requests.RequestException, ValueError) as error:
        # Also an answer that was lost, or that this version of Hera cannot read.
        if workflows.find(cluster, name).state in ("FAILED", "KILLED"):
            raise TriremeError(f"Argo's server at {server.address} failed: {error}") from None


def _ask(server: _Server, name: str, namespace: str) -> None:
    service = WorkflowsService(
        host=server.address,
        token=server.token,
        session=server.session,
        client_certs=server.session.cert,
    )
    request = WorkflowRetryRequest(
        name=name, namespace=namespace, restart_successful=True, node_field_selector=AGAIN
    )
    service.retry_workflow(name, request, namespace)


def _named() -> _Server | None:
    """Returns the server that the environment names."""
    server = os.environ.get("ARGO_SERVER")
    if not server:
        return None
    scheme = "https" if os.environ.get("ARGO_SECURE", "true") in _TRUE else "http"
    base = os.environ.get("ARGO_BASE_HREF", "").strip("/")
    session = _Session()
    session.verify = os.environ.get("ARGO_INSECURE_SKIP_VERIFY") not in _TRUE
    address = f"{scheme}://{server}/{base}/" if base else f"{scheme}://{server}/"
    return _Server(address, session, os.environ.get("ARGO_TOKEN"))


def _in_cluster(cluster: Cluster) -> _Server | None:
    """Returns the server in the cluster, which the API server's proxy leads to."""
    configuration = cluster.configuration
    token_of_cluster = configuration.get_api_key_with_prefix("authorization")
    session = _Session()
    session.verify = configuration.verify_ssl and (configuration.ssl_ca_cert or True)
    session.cert = (configuration.cert_file, configuration.key_file)
    if not configuration.cert_file:
        session.cert = None
    # The API server keeps the header to itself. Argo's server reads the cookie of its UI as well.
    if token := os.environ.get("ARGO_TOKEN", token_of_cluster):
        session.cookies.set("authorization", f"Bearer {token.removeprefix('Bearer ')}")
    for namespace in dict.fromkeys((cluster.namespace, *NAMESPACES)):
        for name in NAMES:
            if port := _port(cluster, namespace, name):
                path = SERVICES.path(namespace, f"{port}/proxy/")
                return _Server(f"{configuration.host}{path}", session, token_of_cluster)
    return None


def _port(cluster: Cluster, namespace: str, name: str) -> str:
    """Returns what the API server's proxy calls the port of a Service; empty if there is none."""
    try:
        service = cluster.find(SERVICES, name, namespace)
    except Refused:  # this user may not look
        return ""
    if not service:
        return ""
    port = service["spec"]["ports"][0]
    is_plain = port.get("name") == "http"  # as the chart has it, whose server has no TLS by default
    return f"{'http' if is_plain else 'https'}:{name}:{port['port']}"


def _missing(name: str, namespace: str) -> _Server:
    namespaces = ", ".join(dict.fromkeys((namespace, *NAMESPACES)))
    raise InputError(
        "ARGO_SERVER is not set, no Service of Argo's server is to be seen in namespaces "
        f"{namespaces}, and only that server can resume a run; set ARGO_SERVER to HOST:PORT, or "
        f"use Argo's own command: argo retry {name} -n {namespace} --restart-successful "
        f"--node-field-selector {AGAIN}"
    )
