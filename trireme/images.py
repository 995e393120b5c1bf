"""The images that the steps run in."""

from trireme.errors import InputError

VERSION = "0.1.0"
"""What they are tagged with: that of this Trireme, which compiles what they run."""

BASE = f"ghcr.io/trireme/base:{VERSION}"
"""kfp, these components, git: for steps that need no framework."""

PYTORCH = f"ghcr.io/trireme/pytorch:{VERSION}"
"""``BASE`` with PyTorch and ONNX."""

TENSORFLOW = f"ghcr.io/trireme/tensorflow:{VERSION}"
"""``BASE`` with TensorFlow."""

MPI = f"ghcr.io/trireme/mpi:{VERSION}"
"""``PYTORCH`` with OpenMPI and an SSH server, which needs no root."""

MPI_KEYS = "/home/trireme/.ssh"
"""Where programs in ``MPI`` look for the keys of their job."""

JAX = f"ghcr.io/trireme/jax:{VERSION}"
"""``BASE`` with JAX, for CPUs."""

XGBOOST = f"ghcr.io/trireme/xgboost:{VERSION}"
"""``BASE`` with XGBoost, for CPUs."""

MLFLOW = f"ghcr.io/trireme/mlflow:{VERSION}"
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
