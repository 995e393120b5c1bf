"""Asking a cluster what this user, or a service account, may do."""

from collections.abc import Iterable
from contextlib import suppress

from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import Forbidden
from trireme.components.kubernetes.resources import (
    ACCESS_REVIEWS,
    ACCOUNT_REVIEWS,
    NAMESPACES,
    Resource,
)

Right = tuple[Resource, str, str]  # resource, subresource, verb


def check_namespace(cluster: Cluster) -> None:
    """Refuses a namespace that is not there, of which the API server lists nothing.

    Args:
        cluster: The cluster, with the namespace.

    Raises:
        InputError: The cluster has none of that name.
    """
    with suppress(Forbidden):  # who may not look is not told
        cluster.get(NAMESPACES, cluster.namespace, "")


def in_words(needed: Iterable[Right]) -> str:
    """Says what is to be allowed, each resource once."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in needed:
        verbs.setdefault(resource.full_name + (f"/{part}" if part else ""), []).append(verb)
    return "; ".join(f"{', '.join(those)} {what}" for what, those in verbs.items())


def check_rights(cluster: Cluster, namespace: str, needed: Iterable[Right]) -> None:
    """Checks that this user may do what has to be done.

    Args:
        cluster: The cluster.
        namespace: Where.
        needed: What, as resource, subresource and verb.

    Raises:
        Forbidden: This user lacks rights; the message names all of them.
    """
    lacking = [
        f"{verb} {resource.full_name}{'/' + part if part else ''}"
        for resource, part, verb in needed
        if not may(cluster, namespace, resource, part, verb)
    ]
    if lacking:
        raise Forbidden(
            f"this user may not {', '.join(lacking)} in namespace {namespace}; "
            "a Role that allows it and a RoleBinding to this user are needed"
        )


def may(cluster: Cluster, namespace: str, resource: Resource, part: str, verb: str) -> bool:
    """Asks the cluster whether this user may do something.

    Args:
        cluster: The cluster.
        namespace: Where.
        resource: With what.
        part: A subresource of it, or nothing.
        verb: What.
    """
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": _asked(namespace, resource, part, verb)},
    }
    answer = cluster.create(ACCESS_REVIEWS, review)
    return bool(answer["status"]["allowed"])


def lacking_to(cluster: Cluster, account: str, needed: Iterable[Right]) -> list[Right]:
    """Returns what a service account of the cluster's namespace may not do.

    Args:
        cluster: The cluster.
        account: Its name.
        needed: What it has to do.

    Raises:
        Forbidden: This user may not ask that.
    """
    namespace = cluster.namespace
    groups = ["serviceaccounts", f"serviceaccounts:{namespace}", "authenticated"]
    who = {
        "user": f"system:serviceaccount:{namespace}:{account}",
        "groups": [f"system:{group}" for group in groups],
    }
    lacking = []
    for resource, part, verb in needed:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": namespace},
            "spec": who | {"resourceAttributes": _asked(namespace, resource, part, verb)},
        }
        answer = cluster.create(ACCOUNT_REVIEWS, review, namespace)
        if not answer["status"]["allowed"]:
            lacking.append((resource, part, verb))
    return lacking


def _asked(namespace: str, resource: Resource, part: str, verb: str) -> dict[str, str]:
    return {
        "namespace": namespace,
        "verb": verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "subresource": part,
    }
