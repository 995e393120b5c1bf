"""A pipeline of somebody's own that trains, measures and registers a model of XGBoost."""

from kfp import dsl

from trireme import WORKSPACE, checkout, dataset, evaluate, export, finishing, good_enough, train

IMAGE = "ghcr.io/trireme/xgboost:0.1.0"
PROGRAM = "boosted.py"
EVALUATION = {"entrypoint": PROGRAM, "args": ["--evaluate"]}


@dsl.pipeline(name="own-xgboost", pipeline_config=WORKSPACE)
def own_xgboost(code_url: str, model_name: str, experiment: str = ""):
    """Trains the digits with XGBoost, and keeps a good model."""
    with finishing("own-xgboost"):
        code, data = checkout(code_url), dataset()
        trained = train(
            code,
            data,
            framework="xgboost",
            entrypoint=PROGRAM,
            workers=0,
            job={"cpu": "500m", "memory": "1Gi"},
            evaluation=EVALUATION,
        )
        more = {"entrypoint": PROGRAM, "image": IMAGE, "model_name": model_name}
        evaluated = evaluate(trained, code, data, min_accuracy=0.5, evaluation=EVALUATION, **more)
        with good_enough(evaluated):
            export(evaluated, trained, code, data, **more)
