"""Asking a cluster what this user, or a service account, may do."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, KindMissing
from trireme.kubernetes.resources import (
    ACCESS_REVIEWS,
    ACCOUNT_REVIEWS,
    NAMESPACES,
    SELF_REVIEWS,
    Resource,
)

Right = tuple[Resource, str, str]  # resource, subresource, verb


def check_namespace(cluster: Cluster) -> None:
    """Refuses a namespace that is not there, of which the API server lists nothing."""
    with suppress(Forbidden):  # who may not look is not told
        cluster.get(NAMESPACES, cluster.namespace, "")


def in_words(needed: Iterable[Right]) -> str:
    """Says what is to be allowed, each resource once."""
    verbs: dict[str, list[str]] = {}
    for resource, part, verb in needed:
        verbs.setdefault(resource.full_name + (f"/{part}" if part else ""), []).append(verb)
    return "; ".join(f"{', '.join(allowed)} {name}" for name, allowed in verbs.items())


def check_rights(cluster: Cluster, namespace: str, needed: Iterable[Right]) -> None:
    """Raises Forbidden with all the rights that this user lacks."""
    refused = [
        f"{verb} {resource.full_name}{'/' + part if part else ''}"
        for resource, part, verb in needed
        if not may(cluster, namespace, resource, part, verb)
    ]
    if refused:
        raise Forbidden(
            f"this user may not {', '.join(refused)} in namespace {namespace}; "
            "a Role that allows it and a RoleBinding to this user are needed"
        )


def may(
    cluster: Cluster,
    namespace: str,
    resource: Resource,
    part: str,
    verb: str,
    user: dict[str, Any] | None = None,
) -> bool:
    """Asks the cluster whether this user, or somebody else, may do something with a resource."""
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "subresource": part,
    }
    reviews, review_namespace = (ACCOUNT_REVIEWS, namespace) if user else (ACCESS_REVIEWS, "")
    review = {
        "apiVersion": reviews.api_version,
        "kind": "LocalSubjectAccessReview" if user else "SelfSubjectAccessReview",
        "metadata": {"namespace": review_namespace},
        "spec": (user or {}) | {"resourceAttributes": attributes},
    }
    return bool(cluster.create(reviews, review, review_namespace)["status"]["allowed"])


def lacking_to(cluster: Cluster, account: str, needed: Iterable[Right]) -> list[Right]:
    """Returns what a service account may not do; Forbidden if this user may not ask.

    Who is that account itself may always ask, as in a notebook of Kubeflow's.
    """
    namespace = cluster.namespace
    groups = ["serviceaccounts", f"serviceaccounts:{namespace}", "authenticated"]
    account_user = {
        "user": f"system:serviceaccount:{namespace}:{account}",
        "groups": [f"system:{group}" for group in groups],
    }
    other = None if _username(cluster) == account_user["user"] else account_user
    return [right for right in needed if not may(cluster, namespace, *right, user=other)]


def _username(cluster: Cluster) -> str:
    """Returns whom the cluster takes this user for; empty where it does not tell."""
    review = {
        "apiVersion": SELF_REVIEWS.api_version,
        "kind": "SelfSubjectReview",
        "metadata": {},
    }
    with suppress(Forbidden, KindMissing):  # before Kubernetes 1.28 there is none
        return str(cluster.create(SELF_REVIEWS, review, "")["status"]["userInfo"]["username"])
    return ""
