"""Logins of this user, and the servers that each is for, where somebody else names one."""

import base64
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.credentials import secrets
from trireme.data import uri as uris
from trireme.errors import InputError, TriremeError
from trireme.tracking.environment import SECRET

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster

Connect = Callable[[], "Cluster"]

_MLFLOW = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_USERNAME")
_LOGINS = {"mlflow": _MLFLOW, "endpoint": ("KFP_EXISTING_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH")}
"""Variables that log one in, by what a workspace calls the server."""

NAMED = {
    "mlflow": ("MLFLOW_TRACKING_URI",),
    "endpoint": ("KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT"),
}
"""Variables by which a user names the server that these are for."""


def sent(kind: str, url: str, variables: Collection[str] = ()) -> str:
    """Returns what would log this user in to a server that they have not named; empty for nothing.

    Args:
        variables: Variables that whoever names the server gives, too.
    """
    if not _is_foreign(kind, url):
        return ""
    names = [name for name in _LOGINS[kind] if os.environ.get(name) and name not in variables]
    if kind == "mlflow" and Path("~/.mlflow/credentials").expanduser().is_file():
        names.append("~/.mlflow/credentials")
    return names[0] if names else ""


def _is_foreign(kind: str, url: str) -> bool:
    is_url = url.startswith(("http://", "https://")) or (kind == "endpoint" and bool(url))
    origins = [uris.origin(os.environ[name]) for name in NAMED[kind] if os.environ.get(name)]
    return is_url and uris.origin(url) not in origins


def check_secret(where: str, name: str, host: str, connect: Connect, users_file: Path) -> None:
    """Refuses to send a cluster's Secret to a server that only a repository's file names."""
    remedy = f"or save the configuration in {users_file}, or name no Secret"
    try:
        cluster = connect()
        secret = _read(cluster, name)
    except TriremeError as error:
        raise InputError(
            f"{where}: the Secret {name} would be sent to {host}, which only the repository's file "
            f"names, and whether it is for that server is not to be seen ({error}); see to that, "
            f"{remedy}"
        ) from None
    if secret is not None and host not in secret.get(secrets.HOST, "").split():
        raise InputError(
            f"{where}: the Secret {name} of namespace {cluster.namespace} would be sent to {host}, "
            f"which only the repository's file names; if it is for that server, write {host} into "
            f"its key {secrets.HOST}, {remedy}"
        )


def check_tracking(job: dict[str, Any], connect: Connect | None, is_theirs: bool = False) -> None:
    """Refuses to log in to an MLflow that only a job's, or a repository's, file names.

    Args:
        connect: Returns the cluster whose Secret the job would get; None where it runs here.
        is_theirs: Whether MLFLOW_TRACKING_URI is what a repository's workspace says by now.
    """
    env, tracking = job.get("env"), job.get("tracking")
    variables = env if isinstance(env, dict) else {}
    uri = tracking.get("uri") if isinstance(tracking, dict) else None
    url = str(variables.get("MLFLOW_TRACKING_URI") or uri or "")
    if connect is None:
        if login := sent("mlflow", url, variables):
            raise InputError(_to_mlflow(url, login))
    elif uri and (is_theirs or _is_foreign("mlflow", url)):
        more = job.get("secret_env")
        named = {*variables, *(more if isinstance(more, dict) else ())}
        try:
            secret = _read(connect(), SECRET) or {}
        except TriremeError as error:
            unseen = f"the Secret {SECRET}, if there is one ({error}),"
            raise InputError(_to_mlflow(url, unseen, is_theirs)) from None
        has_login = any(name in secret and name not in named for name in _MLFLOW)
        if has_login and uris.origin(secret.get("MLFLOW_TRACKING_URI", "")) != uris.origin(url):
            raise InputError(_to_mlflow(url, f"the login in the Secret {SECRET}", is_theirs))


def _to_mlflow(url: str, login: str, is_theirs: bool = False) -> str:
    by, remedy = ("job", "set MLFLOW_TRACKING_URI to its URL")
    if is_theirs:
        by, remedy = ("repository", "save the workspace in your own trireme.yaml")
    return (
        f"tracking.uri {url}: {login} would be sent there, which only the {by}'s file names; if it "
        f"is for that server, {remedy}"
    )


def _read(cluster: "Cluster", name: str) -> dict[str, str] | None:
    """Returns what a Secret of the namespace of runs holds; None where there is none."""
    from trireme.kubernetes.resources import SECRETS

    secret = cluster.find(SECRETS, name, cluster.namespace)
    if secret is None:
        return None
    data = (secret.get("data") or {}).items()
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in data}
