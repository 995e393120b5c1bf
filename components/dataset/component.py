"""The dataset step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from components.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def dataset(uri: str, workspace: str) -> NamedTuple("Outputs", path=str, fingerprint=str):
    """Stages a dataset into the run workspace and fingerprints its content.

    Args:
        uri: builtin://digits, a file:// URI, or a path on this machine.
        workspace: The run workspace.

    Returns:
        path: Where the files are.
        fingerprint: SHA-256 over the paths, sizes and content of the files.
    """
    from pathlib import Path

    from components.dataset.staging import stage
    from components.step import step

    with step("dataset", workspace):
        return stage(uri, Path(workspace, "data"))
