#!/bin/sh
# The packages of each image with their hashes, in the versions of requirements.lock: locks/*.txt.
# TORCH_CPU says where the builds of PyTorch for CPUs are.
set -eu
cd "$(dirname "$0")/.."
TORCH_CPU=${TORCH_CPU:---extra-index-url https://download.pytorch.org/whl/cpu}

lock() {  # NAME ARGUMENT...: what the image NAME holds
    name=$1
    shift
    uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
        --index-strategy unsafe-best-match --generate-hashes --no-annotate --no-header \
        --constraint requirements.lock "$@" --output-file "images/locks/$name.txt"
}

printf '%s\n' hatchling setuptools wheel | lock build -
lock base pyproject.toml
lock mlflow pyproject.toml --extra server
# shellcheck disable=SC2086
lock pytorch-cpu pyproject.toml --extra pytorch --extra mpi $TORCH_CPU
lock pytorch-cuda pyproject.toml --extra pytorch --extra mpi
lock jax pyproject.toml --extra jax
lock xgboost pyproject.toml --extra xgboost
lock tensorflow-cpu pyproject.toml --extra tensorflow
lock tensorflow-cuda pyproject.toml --extra tensorflow --override images/tensorflow-cuda.txt
