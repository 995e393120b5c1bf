"""The connection to a Kubernetes cluster: credentials, and every request with its retries."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from components.errors import InputError
from components.training.cluster.refusals import Refused, Unavailable, refusal
from components.training.cluster.resources import Resource
from components.training.cluster.streams import Stop

PATIENCE = 300.0  # seconds that an API server may be away
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds between two attempts; each doubles the last
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 60.0  # seconds
CONNECTIONS = 256  # that are kept for another request
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_PASSING = {429, 500, 502, 503, 504}
_NEVER = Stop()
_UNREADABLE = (
    config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)

Query = list[tuple[str, str]]


class Cluster:
    """A Kubernetes cluster, as this user sees it.

    Attributes:
        namespace: Where jobs go that name no namespace.
        patience: Seconds that the API server may be away before a request is given up.
    """

    def __init__(
        self, namespace: str = "", *, context: str | None = None, patience: float = PATIENCE
    ) -> None:
        """Reads the credentials: the kubeconfig, or the service account of the pod this is in.

        Args:
            namespace: The namespace; empty for the one that the credentials come with.
            context: A context of the kubeconfig other than its current one.
            patience: As above.

        Raises:
            InputError: There are no credentials, or they cannot be read.
        """
        self._context = context
        self._lock = threading.Lock()
        self.patience = patience
        try:
            self._api, default = self._load()
        except _UNREADABLE as error:
            why = str(error).partition("\n")[0].rstrip(".")
            raise InputError(
                f"no Kubernetes cluster to work with: {why}; "
                "set KUBECONFIG to a file that kubectl can use"
            ) from error
        self.namespace = namespace or default

    def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        """Returns one object.

        Raises:
            Refused: As for every request; see ``components.training.cluster.refusals``.
            Unavailable: The API server does not answer; as for every request.
        """
        return self.request("GET", resource, resource.path(namespace, name))

    def list(
        self, resource: Resource, namespace: str, *, stop: Stop = _NEVER, **query: str
    ) -> dict[str, Any]:
        """Returns the list of a namespace's objects.

        Args:
            resource: What to list.
            namespace: Where.
            stop: Ends the waiting for an API server that is away.
            query: Such as ``labelSelector``.
        """
        return self.request(
            "GET", resource, resource.path(namespace), query=list(query.items()), stop=stop
        )

    def create(
        self, resource: Resource, body: dict[str, Any], namespace: str = "", **query: str
    ) -> dict[str, Any]:
        """Creates an object; returns it as the server has it."""
        path = resource.path(namespace)
        return self.request("POST", resource, path, query=list(query.items()), body=body)

    def patch(
        self, resource: Resource, name: str, namespace: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Merges fields into an object; returns it as the server has it then."""
        return self.request("PATCH", resource, resource.path(namespace, name), body=body)

    def delete(
        self, resource: Resource, name: str, namespace: str, uid: str, patience: float | None = None
    ) -> None:
        """Asks for an object to be deleted, after all that belongs to it.

        The object stays until its dependents are gone: as long as it can be seen, something of
        it may run, and no other can take its name.

        Args:
            resource: What it is.
            name: Its name.
            namespace: Its namespace.
            uid: Its uid: another object that has taken the name meanwhile stays.
            patience: Seconds to try for, where not the cluster's own.
        """
        self.request(
            "DELETE",
            resource,
            resource.path(namespace, name),
            body={"propagationPolicy": "Foreground", "preconditions": {"uid": uid}},
            patience=patience,
        )

    def stream(
        self, resource: Resource, path: str, query: Query, stop: Stop, silence: float
    ) -> urllib3.BaseHTTPResponse:
        """Opens an answer that goes on, such as a watch or a log.

        Args:
            resource: What it is about.
            path: Its path.
            query: Its parameters.
            stop: Ends the waiting for an API server that is away.
            silence: Seconds without a byte after which the connection counts as lost.
        """
        response: urllib3.BaseHTTPResponse = self.request(
            "GET", resource, path, query=query, stop=stop, silence=silence
        )
        return response

    def request(
        self,
        method: str,
        resource: Resource,
        path: str,
        *,
        query: Query | None = None,
        body: dict[str, Any] | None = None,
        stop: Stop = _NEVER,
        silence: float | None = None,
        patience: float | None = None,
    ) -> Any:
        """Sends a request until it is answered; every request of the launcher comes through here.

        What passes is waited out: an API server that is away, overloaded or slow. Credentials
        that it no longer accepts are read again, once.

        Args:
            method: The HTTP method.
            resource: What the request is about, for the error's sentence.
            path: The path.
            query: Its parameters.
            body: The object to send.
            stop: Ends the waiting.
            silence: Seconds without a byte that end the answer, where that is a stream.
            patience: Seconds to try for, where not the cluster's own.

        Returns:
            The object in the answer; the open response where ``silence`` is given.

        Raises:
            Refused: The answer is no; see ``components.training.cluster.refusals``.
            Unavailable: There was no answer.
        """
        limit = time.monotonic() + (self.patience if patience is None else patience)
        pause, renewed = FIRST_PAUSE, False
        while True:
            api = self._api
            try:
                return _send(api, method, path, query, body, silence)
            except client.ApiException as error:
                if error.status == 401 and not renewed:
                    renewed = True
                    self._renew(api)
                    continue
                if _is_distrust(error):
                    raise Refused(
                        f"the certificate of {api.configuration.host} is not one that the "
                        "kubeconfig trusts"
                    ) from None
                if error.status not in _PASSING and error.status != 0:
                    raise refusal(error, resource) from None
                wait = max(pause, _retry_after(error))
                problem = _problem(error)
            except HTTPError as error:
                wait, problem = pause, str(error).partition(": ")[2] or str(error)
            if time.monotonic() + wait > limit or stop.wait(wait):
                raise Unavailable(f"the cluster at {api.configuration.host} is away: {problem}")
            pause = min(2 * pause, LONGEST_PAUSE)

    def _load(self) -> tuple[client.ApiClient, str]:
        """Returns a client with the credentials as they are now, and their namespace."""
        settings = client.Configuration()
        settings.retries = False  # every retry is ours
        settings.connection_pool_maxsize = CONNECTIONS
        kubeconfig = os.environ.get("KUBECONFIG") or None
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
            return client.ApiClient(settings), _NAMESPACE.read_text().strip()
        # The library would take the variable as it was when it was imported.
        location = kubeconfig or str(Path.home() / ".kube" / "config")
        config.load_kube_config(location, self._context, client_configuration=settings)
        contexts, active = config.list_kube_config_contexts(location)
        chosen = next((each for each in contexts if each["name"] == self._context), active)
        return client.ApiClient(settings), chosen["context"].get("namespace") or "default"

    def _renew(self, stale: client.ApiClient) -> None:
        with self._lock:
            if self._api is stale:  # no other thread has done it
                self._api, _ = self._load()


def _send(
    api: client.ApiClient,
    method: str,
    path: str,
    query: Query | None,
    body: dict[str, Any] | None,
    silence: float | None,
) -> Any:
    patching = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    return api.call_api(
        path,
        method,
        query_params=list(query or []),
        header_params={"Accept": "application/json, */*"} | patching,
        body=body,
        response_type="object",
        auth_settings=["BearerToken"],
        _return_http_data_only=True,
        _preload_content=silence is None,
        _request_timeout=(CONNECT_TIMEOUT, READ_TIMEOUT if silence is None else silence),
    )


def _is_distrust(error: client.ApiException) -> bool:
    return error.status == 0 and "CERTIFICATE_VERIFY_FAILED" in str(error.reason)


def _retry_after(error: client.ApiException) -> float:
    asked = (error.headers or {}).get("Retry-After", "")
    return float(asked) if asked.isdigit() else 0.0


def _problem(error: client.ApiException) -> str:
    return f"{error.status} {' '.join(str(error.reason).split())}".removeprefix("0 ")
