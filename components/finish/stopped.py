"""Whether somebody has stopped a run on plain Argo, which to its exit handler is a failure."""

from trireme.components.errors import TriremeError, first_line
from trireme.components.kubernetes import connection
from trireme.components.kubernetes.resources import WORKFLOWS

PATIENCE = 15.0  # seconds that an API server may be away; the run's record and webhook wait


def was_stopped(workflow: str) -> bool:
    """Tells whether a run was stopped; where it may not be asked for, it was not."""
    try:
        cluster = connection.Cluster(patience=PATIENCE)
        found = cluster.get(WORKFLOWS, workflow, cluster.namespace)
    except TriremeError as error:
        print(f"warning: {first_line(error)}", flush=True)
        return False
    return bool(found["spec"].get("shutdown"))
