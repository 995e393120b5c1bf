"""A pipeline of somebody's own that trains with a framework for which no pipeline of ours is."""

from kfp import dsl

from trireme import WORKSPACE, checkout, dataset, finishing, tracked, train

IMAGE = "ghcr.io/trireme/jax:0.1.0"
FOLDER = "trainers"


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def score(code: str, model: str, data: str) -> float:
    import sys

    import numpy as np

    sys.path.insert(0, f"{code}/trainers")
    import jax_classifier

    with np.load(f"{model}/model.npz") as weights, np.load(f"{data}/test.npz") as test:
        right = jax_classifier.apply(dict(weights), test["x"]).argmax(1) == test["y"]
    print("held-out accuracy", float(right.mean()))
    return float(right.mean())


@dsl.pipeline(name="own-jax-of-a-name-that-is-quite-long", pipeline_config=WORKSPACE)
def own_jax(workers: int = 2, epochs: str = "3", experiment: str = ""):
    """Trains the digits with JAX, and measures the model."""
    with finishing("own-jax-of-a-name-that-is-quite-long"):
        code, data = checkout(), dataset()
        trained = train(
            code,
            data,
            framework="jax",
            entrypoint=f"{FOLDER}/jax_classifier.py",
            args=["--epochs", epochs],
            workers=workers,
            job={"cpu": "500m", "memory": "1Gi"},
        )
        path = {"code": code.outputs["path"], "data": data.outputs["path"]}
        tracked(score(model=trained.outputs["model"], **path))
