"""The step NAME as a kfp component: inputs, outputs, image; the work is in work.py."""

from kfp import dsl

from trireme.components.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def NAME(text: str, workspace: str) -> str:
    """Says what it does in one sentence.

    Args:
        text: What it is given.
        workspace: The run workspace.

    Returns:
        What has come of it.
    """
    from trireme.components.NAME.work import work
    from trireme.components.step import step

    with step("NAME", workspace):
        return work(text)
