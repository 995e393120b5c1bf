"""The checkout step as a kfp component."""

from typing import NamedTuple

from kfp import dsl

from trireme.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def checkout(
    url: str,
    revision: str,
    workspace: str,
    secret: str = "",
    directory: str = "",
    submodules: str = "all",
    without: list[str] = [],  # noqa: B006 - kfp copies it
    requirements: list[str] = [],  # noqa: B006 - kfp copies it
    requirements_secret: str = "",
    framework: str = "pytorch",
) -> NamedTuple("Outputs", path=str, commit=str):
    """Checks out a git repository at an exact commit into the run workspace, and what it requires.

    Args:
        url: An https, ssh, git or file URL, or a directory on this machine. Empty: the reference
            trainers that Trireme carries.
        revision: A branch, a tag, or a full or short commit id. Empty: the default branch.
        workspace: The run workspace.
        secret: The name of the Secret that opens a private repository, with the keys username and
            password (or a token), or ssh-privatekey and known_hosts. Empty:
            none; one of the default name is optional.
        directory: A directory in the repository that becomes CODE_DIR. Empty: all of it.
        submodules: The submodules that are checked out: all, none, or their paths with commas
            between them.
        without: Paths in a directory on this machine that are no code, as its data are.
        requirements: Packages for all steps of the run: requirements, and files in CODE_DIR that
            list them. Those of git repositories on the same server are opened with secret, too.
        requirements_secret: The name of the Secret with their index, under the keys index-url and
            extra-index-url. Empty: none; one of the default name is optional.
        framework: The framework of the training program, whose package the others have to get
            along with.

    Returns:
        path: Path of that directory.
        commit: The full id of the commit that was checked out; for the reference trainers, a hash
            of their contents.
    """
    from pathlib import Path

    from trireme.code import credentials
    from trireme.code.git import checkout
    from trireme.credentials import secrets
    from trireme.packages.install import install
    from trireme.tracked_step import step

    with step("checkout", workspace):
        code = checkout(
            url,
            revision,
            Path(workspace, "code"),
            secret=secrets.given(secret, "code"),
            directory=directory,
            submodules=submodules,
            without=without,
        )
        with credentials.for_others(url, secrets.given(secret, "code")) as git:
            install(
                requirements,
                Path(code.path),
                Path(workspace),
                framework=framework,
                secret=secrets.given(requirements_secret, "requirements"),
                commit=f"{code.commit}:{directory}" if directory else code.commit,
                git=git,
            )
        return code
