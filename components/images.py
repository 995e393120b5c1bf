"""The images that the steps run in."""

from components.errors import InputError

BASE = "ghcr.io/trireme/base:0.1.0"
"""kfp, these components, git: for steps that need no framework."""

PYTORCH = "ghcr.io/trireme/pytorch:0.1.0"
"""``BASE`` with PyTorch and ONNX."""

TENSORFLOW = "ghcr.io/trireme/tensorflow:0.1.0"
"""``BASE`` with TensorFlow."""

MPI = "ghcr.io/trireme/mpi:0.1.0"
"""``PYTORCH`` with OpenMPI and an SSH server, which needs no root."""

MPI_KEYS = "/home/trireme/.ssh"
"""Where programs in ``MPI`` look for the keys of their job."""

MLFLOW = "ghcr.io/trireme/mlflow:0.1.0"
"""An MLflow server with PostgreSQL, S3 and users."""


USER = 1000
"""Whom programs run as in all of these."""


def of_framework(framework: str, images: dict[str, str]) -> str:
    """Returns the image for a framework.

    Args:
        framework: The framework.
        images: Those there are, by framework.

    Raises:
        InputError: There is none for it.
    """
    if framework not in images:
        raise InputError(f"framework {framework!r}: must be one of {', '.join(images)}")
    return images[framework]
