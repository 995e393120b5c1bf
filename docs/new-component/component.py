"""The step NAME as a kfp component: inputs, outputs, image; the work is in work.py."""

from kfp import dsl

from trireme.images import BASE


@dsl.component(base_image=BASE, install_kfp_package=False)
def NAME(text: str, workspace: str) -> str:
    """Say in one sentence what it does.

    Args:
        text: Its input.
        workspace: The run workspace.

    Returns:
        Its output.
    """
    from trireme.NAME.work import work
    from trireme.tracked_step import step

    with step("NAME", workspace):
        return work(text)
