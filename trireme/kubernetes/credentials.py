"""The credentials for a Kubernetes cluster: a kubeconfig, or a pod's service account."""

import os
from pathlib import Path

import yaml
from kubernetes import client, config

from trireme.errors import InputError
from trireme.kubernetes.errors import NoCluster

CONNECTIONS = 256  # that are kept for another request
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_UNREADABLE = (
    config.ConfigException,
    yaml.YAMLError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)


def are_there() -> bool:
    """Tells whether there is a kubeconfig, or this is a pod."""
    is_named = "KUBECONFIG" in os.environ or "KUBERNETES_SERVICE_HOST" in os.environ
    return is_named or _default().exists()


def load(context: str | None) -> tuple[client.ApiClient, str]:
    """Returns a client with the credentials as they are now, and the namespace that they name."""
    settings = client.Configuration()
    settings.retries = False  # every retry is ours
    settings.connection_pool_maxsize = CONNECTIONS
    try:
        kubeconfig = os.environ.get("KUBECONFIG") or None
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(client_configuration=settings)
            return client.ApiClient(settings), _NAMESPACE.read_text().strip()
        # The library would take the variable as it was when it was imported.
        location = kubeconfig or str(_default())
        contexts, chosen = config.list_kube_config_contexts(location)
        if context:
            by_name = {entry["name"]: entry for entry in contexts}
            if context not in by_name:
                raise InputError(
                    f"context {context!r}: it is not in the kubeconfig, which has "
                    + ", ".join(sorted(by_name))
                )
            chosen = by_name[context]
        config.load_kube_config(location, context, client_configuration=settings)
        return client.ApiClient(settings), chosen["context"].get("namespace") or "default"
    except _UNREADABLE as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise NoCluster(
            f"no Kubernetes cluster to work with: {reason}; "
            "set KUBECONFIG to a file that kubectl can use"
        ) from error


def _default() -> Path:
    return Path.home() / ".kube" / "config"
