"""A pipeline of somebody's own: steps of Trireme's, some that know it, and some that do not."""

from kfp import dsl

from trireme import WORKSPACE, checkout, dataset, finishing, tracked

# Any image with kfp would do; this one is on the cluster.
IMAGE = "ghcr.io/trireme/base:0.1.0"


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def count(rows: int, data: str) -> int:
    import os
    from pathlib import Path

    print("counting", rows, "among", len(list(Path(data).iterdir())), "files")
    given = Path(os.environ.get("GIVEN", "/given"), "greeting")  # as a shape has it
    print("given is", given.read_text() if given.exists() else "nothing")
    if rows > 100:
        raise ValueError("too many rows")
    return rows


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def say(item: str):
    print("said", item)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def note(words: str, workspace: str):
    from trireme.tracked_step import step
    from trireme.tracking import journal

    with step("note", workspace):
        journal.log_tags({"words": words})
        journal.summarize(words)


@dsl.pipeline(name="own-rows", pipeline_config=WORKSPACE)
def own_rows(rows: int = 3, items: list = ["one", "two"], experiment: str = ""):  # noqa: B006
    """Counts rows, and says each item."""
    with finishing("own-rows"):
        checkout()
        data = dataset()
        counted = count(rows=rows, data=data.outputs["path"])
        for words in ("once", "twice"):
            tracked(note(words=words, workspace=dsl.WORKSPACE_PATH_PLACEHOLDER))
        with dsl.ParallelFor(items, name="each") as item:
            say(item=item).after(counted)
