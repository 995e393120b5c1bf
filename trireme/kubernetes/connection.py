"""The connection to a Kubernetes cluster: every request, with its retries."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import urllib3
from kubernetes import client
from urllib3.exceptions import HTTPError, LocationValueError

from trireme.errors import InputError
from trireme.kubernetes import credentials
from trireme.kubernetes.errors import (
    Expired,
    KindMissing,
    NotFound,
    Refused,
    Unauthorized,
    Unavailable,
    is_final,
    message_of,
    refusal,
)
from trireme.kubernetes.resources import Resource
from trireme.kubernetes.streams import Stop
from trireme.process.patience import Pauses

PATIENCE = 300.0  # seconds that an API server may be away
PATIENCE_OF_A_PERSON = 15.0  # who waits for the answer
PAGE = "200"  # objects of a list that come at once
UNSAID = 1.0  # seconds of waiting that are not worth a word
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 30.0  # seconds
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"  # ways to patch
FIELD_MANAGER = "trireme"  # what we apply is known by
PASSING = {429, 500, 502, 503, 504}  # statuses that may be others a moment later
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # of a namespace
_NEVER = Stop()

Query = list[tuple[str, str]]
Answer = TypeVar("Answer")


def check_namespace(name: str) -> None:
    """Refuses a name that no namespace can have."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"namespace {name!r}: must be at most 63 lower-case letters, digits and '-', with a "
            "letter or digit at either end"
        )


class Cluster:
    """A Kubernetes cluster, as this user sees it.

    Attributes:
        patience: Seconds that the API server may be away before a request is given up.
        context: That of the kubeconfig; None for the current one.
    """

    def __init__(
        self,
        namespace: str = "",
        *,
        context: str | None = None,
        patience: float = PATIENCE,
        patience_at_first: float | None = None,
        on_wait: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Reads the credentials: the kubeconfig, or the service account of the pod this is in.

        Args:
            namespace: The namespace; empty for the one that the credentials come with.
            patience_at_first: The patience until it has answered once, where that is another.
            on_wait: Called with a sentence when the API server has to be waited for.
        """
        self.context = context
        self._lock = threading.Lock()
        self._on_wait, self._has_said_so = on_wait, False
        self._patience_now = patience if patience_at_first is None else patience_at_first
        self.patience = patience
        self._api, default = credentials.load(context)
        self.namespace = namespace or default
        check_namespace(self.namespace)

    @property
    def warning(self) -> str:
        """What the API server warned of in its last answer, as the header has it."""
        return self._api.last_response.getheader("Warning") or ""

    @property
    def configuration(self) -> client.Configuration:
        """Where the API server is and who this user is, for what is no request and answer."""
        return self._api.configuration

    def get(
        self, resource: Resource, name: str, namespace: str, patience: float | None = None
    ) -> dict[str, Any]:
        """Returns one object."""
        return self.request("GET", resource, resource.path(namespace, name), patience=patience)

    def find(
        self, resource: Resource, name: str, namespace: str, patience: float | None = None
    ) -> dict[str, Any] | None:
        """Returns one object; ``None`` if there is none."""
        try:
            return self.get(resource, name, namespace, patience)
        except NotFound:
            return None

    def first(self, resources: Sequence[Resource], ask: Callable[[Resource], Answer]) -> Answer:
        """Returns the answer for the first resource that the server knows; KindMissing for none."""
        *others, last = resources
        for resource in others:
            with suppress(KindMissing):
                return ask(resource)
        return ask(last)

    def items(self, resource: Resource, namespace: str, **query: str) -> "list[dict[str, Any]]":
        """Returns a namespace's objects."""
        return [*self.each(resource, namespace, **query)]

    def each(self, resource: Resource, namespace: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yields a namespace's objects, of which a page at a time is in memory."""
        # https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
        path, after = resource.path(namespace), ""
        keys: set[tuple[str, str]] = set()
        while True:
            pairs = [*query.items(), ("limit", PAGE), *([("continue", after)] if after else [])]
            try:
                page = self.request("GET", resource, path, query=pairs)
            except Expired:  # its server keeps the rest of a list for some minutes only
                if not after:
                    raise
                after = ""
                continue
            for item in page.get("items") or []:
                key = item["metadata"].get("namespace", ""), item["metadata"]["name"]
                if key not in keys:
                    keys.add(key)
                    yield item
            after = page.get("metadata", {}).get("continue")
            if not after:
                return

    def list(
        self, resource: Resource, namespace: str, *, stop: Stop = _NEVER, **query: str
    ) -> dict[str, Any]:
        """Returns the list of a namespace's objects."""
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

    def apply(
        self, resource: Resource, body: dict[str, Any], namespace: str, **query: str
    ) -> dict[str, Any]:
        """Creates an object or changes it to be as given; returns it as the server has it."""
        # https://kubernetes.io/docs/reference/using-api/server-side-apply/
        defaults = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self.request(
            "PATCH",
            resource,
            resource.path(namespace, body["metadata"]["name"]),
            query=list((defaults | query).items()),
            body=body,
            patch=APPLY,
        )

    def replace(self, resource: Resource, body: dict[str, Any], namespace: str) -> dict[str, Any]:
        """Replaces an object that was read and changed, with all of its fields."""
        path = resource.path(namespace, body["metadata"]["name"])
        query = [("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict")]
        return self.request("PUT", resource, path, query=query, body=body)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        uid: str,
        patience: float | None = None,
        dependents: str = "Foreground",
    ) -> None:
        """Asks for an object to be deleted with all that belongs to it.

        Unless told otherwise the object stays until its dependents are gone: as long as it can be
        seen, something of it may run, and no other can take its name.

        Args:
            uid: Its uid: another object that has taken the name meanwhile stays.
            dependents: ``Background`` for it to go before what belongs to it, ``Orphan`` to leave
                that alone.
        """
        self.request(
            "DELETE",
            resource,
            resource.path(namespace, name),
            body={"propagationPolicy": dependents, "preconditions": {"uid": uid}},
            patience=patience,
        )

    def stream(
        self, resource: Resource, path: str, query: Query, stop: Stop, silence: float
    ) -> urllib3.BaseHTTPResponse:
        """Opens an answer that goes on, such as a watch or a log; ``silence`` seconds end it."""
        return self.request("GET", resource, path, query=query, stop=stop, silence=silence)

    def request(
        self,
        method: str,
        resource: Resource,
        path: str,
        *,
        query: Query | None = None,
        body: dict[str, Any] | None = None,
        patch: str = MERGE,
        stop: Stop = _NEVER,
        silence: float | None = None,
        patience: float | None = None,
    ) -> Any:
        """Sends a request until it is answered; every request of the launcher comes through here.

        What passes is waited out: an API server that is away, overloaded or slow. Credentials
        that it no longer accepts are read again, once.

        Args:
            silence: Seconds without a byte that end the answer, where that is a stream.

        Returns:
            The object in the answer; the open response where ``silence`` is given.
        """
        began = time.monotonic()
        limit = began + (self._patience_now if patience is None else patience)
        pauses, renewed, has_said_so = Pauses(), False, False
        while True:
            api = self._api
            try:
                answer = _answer(api, resource, (method, path, query, body, patch), silence)
            except Refused as error:
                self._patience_now = self.patience
                if renewed or not isinstance(error, Unauthorized):
                    raise
                renewed = True
                self._renew(api)
                continue
            except _NotNow as error:
                problem, wait = f"the cluster at {api.configuration.host} {error}", error.wait
            else:
                self._patience_now = self.patience
                if has_said_so:
                    self._has_said_so = False
                return answer
            wait = pauses.take(wait)
            if time.monotonic() + wait > limit:
                raise Unavailable(problem)
            if time.monotonic() + wait > began + UNSAID and not self._has_said_so:
                self._has_said_so = has_said_so = True
                self._on_wait(f"waiting: {problem}")
            if stop.wait(wait):
                raise Unavailable(problem)

    def _renew(self, stale: client.ApiClient) -> None:
        with self._lock:
            if self._api is stale:  # no other thread has done it
                self._api, _ = credentials.load(self.context)


class _NotNow(Exception):
    """The API server cannot answer now; ``wait`` is how many seconds it wants to be left alone."""

    def __init__(self, problem: str, wait: float = 0.0) -> None:
        super().__init__(problem)
        self.wait = wait


_Request = tuple[str, str, Query | None, dict[str, Any] | None, str]


def _answer(
    api: client.ApiClient, resource: Resource, request: _Request, silence: float | None
) -> Any:
    """Returns the answer to a request that is sent once."""
    host = api.configuration.host
    try:
        answer = _send(api, *request, silence)
    except client.ApiException as error:
        if _is_distrust(error):
            raise Refused(
                f"the certificate of {host} is not one that the kubeconfig trusts"
            ) from None
        if error.status == 0:
            raise _NotNow(f"is away: {' '.join(str(error.reason).split())}") from None
        if error.status not in PASSING or is_final(error):
            raise refusal(error, resource) from None
        problem = f"fails: {error.status} {message_of(error)}"
        raise _NotNow(problem, _retry_after(error)) from None
    except LocationValueError as error:
        raise InputError(f"server {host!r} of the kubeconfig: {error}") from None
    except HTTPError as error:
        raise _NotNow(f"is away: {str(error).partition(': ')[2] or error}") from None
    if silence is None and not isinstance(answer, dict):
        raise Refused(
            f"{host} does not answer as a Kubernetes API server does; is its address right, and "
            "is there a login page in front of it?"
        )
    return answer


def _send(
    api: client.ApiClient,
    method: str,
    path: str,
    query: Query | None,
    body: dict[str, Any] | None,
    patch: str,
    silence: float | None,
) -> Any:
    patching = {"Content-Type": patch} if method == "PATCH" else {}
    # As kubectl does; the server packs what is large. A log would come late.
    packing = {"Accept-Encoding": "gzip"} if silence is None else {}
    return api.call_api(
        path,
        method,
        query_params=list(query or []),
        header_params={"Accept": "application/json, */*"} | patching | packing,
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
    seconds = (error.headers or {}).get("Retry-After", "")
    return float(seconds) if seconds.isdigit() else 0.0
