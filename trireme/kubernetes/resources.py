"""Kubernetes' resources, and where the API server keeps them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Resource:
    """A resource of the Kubernetes API, and its ``provider``, for a person to install."""

    group: str
    version: str
    plural: str
    provider: str = field(default="", kw_only=True)

    @property
    def api_version(self) -> str:
        """As in ``apiVersion:`` of a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.full_name

    @property
    def full_name(self) -> str:
        """As ``kubectl`` writes it: ``pytorchjobs.kubeflow.org``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the path of the resource, or of one object of it."""
        root = f"/{'apis' if self.group else 'api'}/{self.api_version}"
        scope = f"namespaces/{namespace}" if namespace else ""
        return "/".join(filter(None, [root, scope, self.plural, name, subresource]))


NAMESPACES = Resource("", "v1", "namespaces")
PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
CONFIG_MAPS = Resource("", "v1", "configmaps")
SECRETS = Resource("", "v1", "secrets")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
EVENTS = Resource("", "v1", "events")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")
WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows")
ACCOUNT_REVIEWS = Resource("authorization.k8s.io", "v1", "localsubjectaccessreviews")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews")

NODE = "workflows.argoproj.io/node-name"
"""The annotation of a pod that says which of a Workflow's nodes it is; a try's ends in ``(0)``."""
