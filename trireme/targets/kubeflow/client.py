"""kfp.Client as it is wanted here, and where it is to go; the one user of its generated API."""

import io
import os
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import kfp
import kfp_server_api
from kfp.client.set_volume_credentials import ServiceAccountTokenVolumeCredentials
from urllib3 import Retry

ApiException = kfp_server_api.ApiException
ORPHAN = kfp_server_api.V2beta1DeletePropagationPolicy.ORPHAN
"""Deletes an object and leaves what it owns."""


@dataclass(frozen=True)
class Server:
    """Where Kubeflow Pipelines is, and who asks.

    Attributes:
        endpoint: URL of the API, or of the UI before it; empty: kfp.Client's own ways, which are
            the service of the cluster that this is a pod of, or the proxy of a kubeconfig's API
            server.
        namespace: The user's namespace, where there are several users.
        token_file: A file with one that is renewed; read again for each request.
    """

    endpoint: str = ""
    namespace: str = ""
    token: str = ""
    token_file: str = ""
    ca_file: str = ""
    context: str = ""

    @property
    def ui(self) -> str:
        """URL of the UI, where it was given; as kfp.Client finds it."""
        endpoint = self.endpoint or os.environ.get("KF_PIPELINES_ENDPOINT", "")
        return os.environ.get("KF_PIPELINES_UI_ENDPOINT", endpoint)


class Client(kfp.Client):
    """kfp.Client, without waiting and printing of its own."""

    @classmethod
    def connect(cls, server: Server) -> "Client":
        """Connects to a server."""
        with_token: dict[str, Any] = {}
        if server.token_file:
            with_token["credentials"] = ServiceAccountTokenVolumeCredentials(server.token_file)
        elif server.token:
            with_token["existing_token"] = server.token
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            client = cls(
                host=server.endpoint or None,
                ssl_ca_cert=server.ca_file or None,
                kube_context=server.context or None,
                **with_token,
            )
        _leave_retries_to_us(client.configuration)
        # It has been made with the settings before.
        client.api.rest_client = kfp_server_api.rest.RESTClientObject(client.configuration)
        return client

    @property
    def api(self) -> kfp_server_api.ApiClient:
        """The generated client that all of its APIs share."""
        return self.runs.run_service_get_run.__self__.api_client

    @property
    def configuration(self) -> kfp_server_api.Configuration:
        """The generated client's settings."""
        return self.api.configuration

    def get_kfp_healthz(self, sleep_duration: int = 0) -> Any:
        """Says nothing yet: whether there are several users is asked with our own patience."""
        return kfp_server_api.V2beta1GetHealthzResponse()


def _leave_retries_to_us(settings: kfp_server_api.Configuration) -> None:
    settings.retries = Retry(0, raise_on_redirect=False)
    settings.host = host = settings.host.rstrip("/")
    if refresh := settings.refresh_api_key_hook:
        # That of a kubeconfig puts its API server's URL back, without the way to Kubeflow.
        def refreshed(settings: Any) -> None:
            refresh(settings)
            settings.host, settings.refresh_api_key_hook = host, refreshed

        settings.refresh_api_key_hook = refreshed
