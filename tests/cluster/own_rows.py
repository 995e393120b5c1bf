"""A pipeline of somebody's own: steps of Trireme's, and one that knows nothing of it."""

from kfp import dsl

from trireme import WORKSPACE, checkout, dataset, finishing

# Any image with kfp would do; this one is on the cluster.
IMAGE = "ghcr.io/trireme/base:0.1.0"


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def count(rows: int, data: str) -> int:
    from pathlib import Path

    print("counting", rows, "among", len(list(Path(data).iterdir())), "files")
    if rows > 100:
        raise ValueError("too many rows")
    return rows


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def say(item: str):
    print("said", item)


@dsl.pipeline(name="own-rows", pipeline_config=WORKSPACE)
def own_rows(rows: int = 3, items: list = ["one", "two"], experiment: str = ""):  # noqa: B006
    """Counts rows, and says each item."""
    with finishing("own-rows"):
        checkout()
        data = dataset()
        counted = count(rows=rows, data=data.outputs["path"])
        with dsl.ParallelFor(items, name="each") as item:
            say(item=item).after(counted)
