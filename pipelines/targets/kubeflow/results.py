"""What the steps of a run on Kubeflow Pipelines have come to, in a few words.

Its API tells states alone. A step leaves its result as its container's last words, which its pod
has as long as that is there.
"""

from trireme.components.errors import TriremeError
from trireme.components.kubernetes.connection import Cluster
from trireme.pipelines.targets.kubeflow import logs
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.reading import Run
from trireme.pipelines.targets.pod_logs import last_words

PATIENCE = 5.0  # seconds that an API server may be away; it is a help, and no more


def results(connection: Connection, context: str, run: Run, steps: list[str]) -> dict[str, str]:
    """Returns the results of a run's steps, by name; none where the pods cannot be asked for.

    Args:
        connection: The server that knows the run.
        context: A context of the KUBECONFIG; empty for its current.
        run: The run.
        steps: The names of all steps it may have.
    """
    try:
        namespace = connection.namespace_of_runs
        cluster = Cluster(namespace, context=context or None, patience=PATIENCE)
        return last_words(logs.pods(cluster, run, steps))
    except TriremeError:
        return {}
