"""The connection to Kubeflow Pipelines: every request, with its retries."""

import json
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from trireme.errors import InputError
from trireme.kubernetes import credentials
from trireme.kubernetes.connection import PASSING, PATIENCE_OF_A_PERSON, UNSAID
from trireme.kubernetes.errors import Refused, Unauthorized, Unavailable
from trireme.process.patience import Pauses
from trireme.targets.kubeflow import KUBEFLOW, refusals
from trireme.targets.kubeflow.client import ApiException, Client, Server

TIMEOUT = (10.0, 60.0)  # seconds: to connect, and between two bytes of an answer


class Connection:
    """Kubeflow Pipelines, as this user sees it; with one user only there is no namespace."""

    def __init__(self, server: Server, on_wait: Callable[[str], None]) -> None:
        """Finds the server and asks it whose it is."""
        self._server, self._on_wait = server, on_wait
        self.patience = PATIENCE_OF_A_PERSON
        _check(server)
        self._client = Client.connect(server)
        health = self.ask("healthzs.healthz_service_get_healthz")
        self.namespace = server.namespace or self._client.get_user_namespace() or ""
        if health.multi_user and not self.namespace:
            raise InputError(
                f"Kubeflow Pipelines at {self.host} is multi-user: give your namespace with "
                "--namespace or KFP_NAMESPACE"
            )

    @property
    def namespace_of_runs(self) -> str:
        """Where runs are: in the user's namespace or, where there is one user only, in its own."""
        return self.namespace or KUBEFLOW

    @property
    def host(self) -> str:
        """The API's URL."""
        return str(self._client.configuration.host)

    def page(self, path: str) -> str:
        """Returns the URL of a page in Kubeflow's UI, by what comes after the ``#``."""
        # A URL that leads through a Kubernetes API server shows no UI.
        prefix = self._server.ui or ("" if self.host.endswith("/proxy") else self.host)
        return f"{prefix.rstrip('/')}/#{path}"

    def ask(
        self, method: str, *, happened: Callable[[], Any] = lambda: None, **arguments: Any
    ) -> Any:
        """Sends a request until it is answered.

        What passes is waited out: a server that is away, overloaded or slow. Credentials that it
        no longer accepts are read again, once.

        Args:
            method: Of kfp.Client's generated ones, such as ``runs.run_service_get_run``.
            happened: Asked before the request is sent once more; returns the answer, if the one
                before has had its effect all the same.

        Returns:
            The answer, as one of kfp's models.
        """
        began = time.monotonic()
        pauses, renewed = Pauses(), False
        while True:
            try:
                return self._send(method, arguments)
            except Unauthorized:
                if renewed:
                    raise
                renewed = True
                self._client = Client.connect(self._server)
                continue
            except Unavailable as error:
                waited, pause = time.monotonic() - began, pauses.take()
                if waited + pause > self.patience:
                    raise
                if waited <= UNSAID < waited + pause:
                    self._on_wait(f"waiting: {error}")
            time.sleep(pause)
            if answer := happened():
                return answer

    def pages(self, method: str, field: str, **arguments: Any) -> list[Any]:
        """Returns all that a listing has, whatever the number of its pages."""
        items: list[Any] = []
        token = ""
        while True:
            page = self.ask(method, page_token=token, page_size=100, **arguments)
            items += getattr(page, field) or []
            token = page.next_page_token or ""
            if not token:
                return items

    def named(self, method: str, field: str, name: str) -> list[Any]:
        """Returns all of this user's objects of one name."""
        predicate = {"operation": "EQUALS", "key": "display_name", "string_value": name}
        return self.pages(
            method, field, filter=json.dumps({"predicates": [predicate]}), **self.in_namespace()
        )

    def in_namespace(self) -> dict[str, Any]:
        """Returns the argument that names the namespace, where there is one."""
        return {"namespace": self.namespace} if self.namespace else {}

    def _send(self, method: str, arguments: dict[str, Any]) -> Any:
        """Sends a request once."""
        send = attrgetter(method)(self._client)
        try:
            answer = send(**arguments, _request_timeout=TIMEOUT)
        except ApiException as error:
            if error.status in PASSING:
                raise Unavailable(
                    f"Kubeflow Pipelines at {self.host} fails: {error.status} "
                    f"{refusals.message_of(error)}"
                ) from None
            raise refusals.refusal(error, self.host) from None
        except HTTPError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Refused(
                    f"the certificate of {self.host} is not trusted; set --ca-file or "
                    "REQUESTS_CA_BUNDLE to the file with the certificate that signed it"
                ) from None
            reason = str(getattr(error, "reason", error)).rpartition(": ")[2]
            raise Unavailable(
                f"Kubeflow Pipelines at {self.host} does not answer ({reason}); is --endpoint or "
                "KF_PIPELINES_ENDPOINT its URL?"
            ) from None
        except OSError as error:
            raise InputError(f"the token cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise refusals.not_kubeflow(self.host) from None
        last = send.__self__.api_client.last_response.urllib3_response
        if "json" not in last.headers.get("Content-Type", ""):
            raise refusals.not_kubeflow(self.host)
        return answer


def _check(server: Server) -> None:
    """Refuses what kfp.Client would stumble over later, or pass over."""
    for option, file in (("--token-file", server.token_file), ("--ca-file", server.ca_file)):
        if file:
            try:
                Path(file).read_text()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise InputError(f"{option} {file}: cannot be read: {reason}") from None
    if server.endpoint:
        return
    try:
        credentials.load(server.context or None)
    except InputError as error:
        raise type(error)(
            "no Kubeflow Pipelines to talk to: give --endpoint or set KF_PIPELINES_ENDPOINT to "
            f"its URL, or KUBECONFIG to a file that kubectl can use ({error.__cause__ or error})"
        ) from None
