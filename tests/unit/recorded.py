"""A run in MLflow, as a pipeline leaves it."""

from trireme.tracking import journal
from trireme.tracking.pipeline_run import PipelineRun

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def record(
    home,
    name,
    params,
    pipeline="pytorch-training",
    weights="weights",
    code="file:///models",
    commit=COMMIT,
    **tags,
):
    """Records a run that has succeeded; tags of its checkout have _ for the dot."""
    workspace = home / name / "workspace"
    recorded = PipelineRun(name, "digits", pipeline, params, home, workspace)
    model = workspace / "model"
    model.mkdir(parents=True)
    (model / "model.pt").write_text(weights)
    checkout = {"git.commit": commit, "git.url": code}
    checkout |= {tag.replace("_", "."): value for tag, value in tags.items()}
    for step in ("checkout", "dataset", "train"):
        recorded.step_started(step, workspace)
        with journal.opened(workspace, step):
            if step == "checkout":
                journal.log_tags(checkout)
            elif step == "dataset":
                journal.log_tags({"dataset.fingerprint": "sha256:abc", "dataset.uri": "/data"})
            else:
                journal.log_params({"framework": "pytorch"})
                journal.log_artifact(model, "model")
        recorded.step_ended(step, "FINISHED", workspace, {})
    recorded.close("FINISHED", {})
