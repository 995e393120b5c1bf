"""The dataset step as a kfp component."""

from typing import NamedTuple, Optional

from kfp import dsl

from trireme.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def dataset(
    uri: str,
    secret: str,
    options: dict,
    base_model: str,
    base_model_secret: str,
    base_model_options: dict,
    workspace: str,
    evaluation: Optional[dict] = None,  # noqa: UP045 - kfp reads no other way
) -> NamedTuple("Outputs", path=str, fingerprint=str, base_model=str):
    """Stages a dataset into a cache that runs share, and fingerprints its content.

    Args:
        uri: A path, file://, builtin://digits, oss://, s3://, gs://, hf://, https:// or http://;
            builtin://none for no files.
        secret: The name of the Secret with the credentials. Empty: none; one of the default name is
            optional.
        options: How to reach it and which files to use, as in
            trireme.data.description.
        base_model: The model that training starts from, by a URI as the dataset's or models:/NAME,
            NAME@ALIAS or NAME/VERSION of MLflow's registry; empty for none.
        base_model_secret: The Secret with its credentials, as for the dataset.
        base_model_options: How to reach it, as for the dataset.
        workspace: The run workspace.
        evaluation: That of the evaluation step; of an empty one it is told now if the dataset does
            not let a model be evaluated. None: there is no such step.

    Returns:
        path: Path of the files.
        fingerprint: SHA-256 over the paths, sizes and content of the files.
        base_model: That of the base model's files; empty if there is none.
    """
    from pathlib import Path

    from trireme.data.base_model import stage_base_model
    from trireme.data.description import described
    from trireme.data.staging import cache_of, stage
    from trireme.tracked_step import step

    with step("dataset", workspace):
        directory, start = Path(workspace), ""
        wanted = described(uri, secret, options)
        if base_model:
            of_model = base_model, base_model_secret, base_model_options
            start = stage_base_model(directory, *of_model).fingerprint
        staged = stage(wanted, directory / "data", cache_of(directory), evaluation=evaluation)
        return staged.path, staged.fingerprint, start
