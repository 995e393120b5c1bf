"""Deploy a registered model: bring it here, plan its objects, roll them out."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from trireme.components.deployment import model_version, plans, release
from trireme.components.deployment.kinds import check_kind
from trireme.components.kubernetes.connection import Cluster
from trireme.components.tracking import store

TIMEOUT = 600  # seconds


def deploy(
    model: str,
    kind: str,
    image: str,
    timeout: float,
    cluster: Cluster,
    on_state: Callable[[str], None],
) -> tuple[str, plans.Place]:
    """Deploys a registered model; to be called from the main thread.

    Args:
        model: ``MODEL``, ``MODEL@ALIAS`` or ``MODEL/VERSION``.
        image: For a Deployment: has MLflow and what the model needs.
        timeout: Seconds in which it has to come up.
        on_state: Called with a short sentence whenever it has come on.

    Returns:
        One sentence on what was done, and where the model answers.
    """
    check_kind("the way to deploy", kind)
    found = model_version.find(model)
    if found.note:
        on_state(found.note)
    uri = store.use()
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        downloaded = model_version.download(found, Path(directory, "model"))
        if kind == "kserve":
            plan = plans.as_kserve(downloaded)
        else:
            plan = plans.as_deployment(downloaded, uri, image)
    agreement = release.deploy(cluster, plan, timeout, on_state)
    if agreement is None:
        done = f"{found} is deployed already; nothing was changed"
    else:
        done = f"{found} is deployed, and {agreement}"
    return done, plans.place(cluster, plan)
