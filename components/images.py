"""The images that the steps run in."""

BASE = "ghcr.io/trireme/base:0.1.0"
"""kfp, these components, git: for steps that need no framework."""

PYTORCH = "ghcr.io/trireme/pytorch:0.1.0"
"""``BASE`` with PyTorch and ONNX."""

TENSORFLOW = "ghcr.io/trireme/tensorflow:0.1.0"
"""``BASE`` with TensorFlow."""

MPI = "ghcr.io/trireme/mpi:0.1.0"
"""``PYTORCH`` with OpenMPI, mpi4py and an SSH server."""
