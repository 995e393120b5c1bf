"""The images that the steps run in."""

from trireme.errors import InputError

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

JAX = "ghcr.io/trireme/jax:0.1.0"
"""``BASE`` with JAX, for CPUs."""

XGBOOST = "ghcr.io/trireme/xgboost:0.1.0"
"""``BASE`` with XGBoost, for CPUs."""

MLFLOW = "ghcr.io/trireme/mlflow:0.1.0"
"""An MLflow server with PostgreSQL, S3 and users."""


def for_gpus(image: str) -> str:
    """Returns the image that is like one of these but for GPUs."""
    return f"{image}-cuda"


OF_REPLICAS = {
    image: image for cpu in (PYTORCH, TENSORFLOW, MPI) for image in (cpu, for_gpus(cpu))
} | {JAX: JAX, XGBOOST: XGBOOST}
"""What training replicas run in where nothing else is given, by name: what a run pulls for it."""

USER = 1000
"""Whom programs run as in all of these."""


def is_ours(image: str) -> bool:
    """Tells whether an image is one of these, of any version, for CPUs or GPUs."""
    return image.startswith(BASE.partition("base:")[0])


def of_framework(framework: str, images: dict[str, str]) -> str:
    """Returns the image for a framework."""
    if framework not in images:
        raise InputError(f"framework {framework!r}: must be one of {', '.join(images)}")
    return images[framework]
