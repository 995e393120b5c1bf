"""The deployment step as a kfp component."""

from kfp import dsl

from trireme.images import PYTORCH


@dsl.component(base_image=PYTORCH, install_kfp_package=False)
def deploy(kind: str, model_name: str, image: str, workspace: str) -> str:
    """Deploys the champion of a registered model to the cluster, in the run's namespace.

    Args:
        kind: deployment (with a Service), or kserve.
        model_name: The registered model.
        image: For a Deployment: image with MLflow and the model's packages.
        workspace: The run workspace.

    Returns:
        Its URL in the cluster.
    """
    from trireme.deployment import deploy
    from trireme.kubernetes.connection import Cluster
    from trireme.tracked_step import step
    from trireme.tracking import environment, journal
    from trireme.tracking.registry import CHAMPION

    with step("deploy", workspace):
        environment.variables()  # which are there when the model is registered
        done, place = deploy.deploy(
            f"{model_name}@{CHAMPION}", kind, image, deploy.TIMEOUT, Cluster(), print
        )
        journal.log_tags({"deployed": place.url})
        journal.summarize(f"{done}; it answers at {place.url}")
        return place.url
