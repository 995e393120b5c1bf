"""``kubectl``, for what needs more than requests and answers."""

from trireme.kubernetes.connection import Cluster


def exec_in(cluster: Cluster, pod: str, container: str, command: list[str], how: str) -> list[str]:
    """Returns the command that runs one in a container; ``how`` as in ``-it``."""
    options = ["--namespace", cluster.namespace]
    options += ["--context", cluster.context] if cluster.context else []
    return ["kubectl", "exec", how, pod, "-c", container, *options, "--", *command]
