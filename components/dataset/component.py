"""The dataset step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.components.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def dataset(uri: str, secret: str, options: dict, workspace: str) -> NamedTuple(
    "Outputs", path=str, fingerprint=str
):
    """Stages a dataset into a cache that runs share, and fingerprints its content.

    Args:
        uri: A path, file://, builtin://digits, oss://, s3://, gs://, https:// or http://.
        secret: The name of the Secret with the credentials. Empty: none; one of the default name is
            optional.
        options: How to reach it and which files to use, as in
            trireme.components.dataset.description.
        workspace: The run workspace.

    Returns:
        path: Path of the files.
        fingerprint: SHA-256 over the paths, sizes and content of the files.
    """
    from pathlib import Path

    from trireme.components.dataset.description import described
    from trireme.components.dataset.staging import cache_of, stage
    from trireme.components.step import step

    with step("dataset", workspace):
        directory = Path(workspace)
        wanted = described(uri, secret, options)
        staged = stage(wanted, directory / "data", cache_of(directory))
        return staged.path, staged.fingerprint
