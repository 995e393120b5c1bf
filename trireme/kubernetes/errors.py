"""Refusals of a Kubernetes API server, as errors of one sentence."""

import json
import re
from typing import Any

from kubernetes.client import ApiException

from trireme.errors import InputError, TriremeError
from trireme.kubernetes.resources import Resource

# What server-side apply says of an unknown field, with a 500 as if that were a fault of its own.
_UNTYPED = "failed to create typed patch object"
_DENIED = re.compile(r"\bdenied (the )?request\b")


class Refused(TriremeError):
    """The API server refused a request."""

    code = "refused"


class Unauthorized(Refused):
    """The API server does not know this user (401)."""

    code = "unauthorized"


class Forbidden(Refused):
    """This user may not do that (403)."""

    code = "forbidden"


class NotFound(Refused):
    """There is no such object (404)."""

    code = "not-found"


class KindMissing(Refused):
    """The cluster does not know the kind of the object (404): its operator is not installed."""

    code = "kind-missing"


class AlreadyThere(Refused):
    """An object of that name exists, or it has changed meanwhile (409)."""

    code = "already-there"


class Expired(Refused):
    """The version of a resource to watch from is no longer known (410)."""


class Invalid(Refused, InputError):
    """The object is not valid (400, 422); the message is the server's own."""

    code = "invalid-input"
    exit_status = 2


class NoCluster(InputError):
    """Nothing on this machine says where a cluster is."""


class Unavailable(TriremeError):
    """The API server has not answered for as long as we were ready to wait."""

    code = "unavailable"


def refusal(error: ApiException, resource: Resource) -> Refused:
    """Says in one sentence why a request was refused."""
    details, message = object_of(error).get("details") or {}, message_of(error)
    match error.status:
        case 401:
            return Unauthorized(
                "the cluster does not accept the credentials (401 Unauthorized); they may have "
                "expired: log in again, or check the service account's token"
            )
        case 403 if _DENIED.search(message):  # by an admission webhook, which refuses the object
            return Invalid(f"the cluster finds it invalid: {message}")
        case 403:
            return Forbidden(
                f"not allowed on the cluster: {message.rpartition('forbidden: ')[2].strip()}"
            )
        case 404 if not details.get("name"):
            install = f": install {resource.provider}" if resource.provider else ""
            return KindMissing(f"the cluster has no {resource.title}{install}")
        case 404 if details.get("kind") == "namespaces":
            return Invalid(f"namespace {details['name']!r}: it does not exist on the cluster")
        case 404:
            return NotFound(message)
        case 409:
            return AlreadyThere(message)
        case 410:
            return Expired(message)
        case 400 | 422 | 500:
            return Invalid(f"the cluster finds it invalid: {message}")
    return Refused(f"the cluster refused {resource.full_name}: {message}")


def is_final(error: ApiException) -> bool:
    """Tells whether the same request would be refused again, whatever its status says."""
    return error.status == 500 and message_of(error).startswith(_UNTYPED)


def message_of(error: ApiException) -> str:
    """Returns what the API server says is wrong, in its own words."""
    message = object_of(error).get("message") or error.reason or "no reason given"
    return " ".join(str(message).split())


def object_of(error: Any) -> dict[str, Any]:
    """Returns the object that came with an error, such as a Status; empty where there was none."""
    try:
        content = json.loads(error.body or "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
