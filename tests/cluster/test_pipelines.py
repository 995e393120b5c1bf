"""Whole runs of the pipelines, as they go when all is well or the program is at fault."""

import json
import re
import secrets
from pathlib import Path

import place as places
import pytest
from engines import ENDED

OWN, OWN_JAX, OWN_XGBOOST = (
    str(Path(__file__).with_name(f"own_{name}.py")) for name in ("rows", "jax", "xgboost")
)
STEPS = ["checkout", "dataset", "train", "evaluate", "export"]


@pytest.fixture
def quick(place):
    """Parameters of a run of a repository of one's own, which trains for a second."""
    return {"code_url": place.code, "entrypoint": "digits.py", "workers": 0}


def finished(engine, run):
    """Checks the record of a run that has succeeded; returns it."""
    whole, steps = engine.recorded(run)
    assert whole.info.status == "FINISHED", whole.data.tags
    assert {name: steps[name].info.status for name in STEPS} == dict.fromkeys(STEPS, "FINISHED")
    assert "error" not in whole.data.tags
    assert whole.data.metrics["held_out_accuracy"] > 0.9
    assert whole.data.tags["model.version"]
    return whole, steps


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_the_default_pipeline(engine, framework):
    run, output = engine.run(f"{framework}-training", model_name=f"{framework}-{engine.name}")
    assert f"{run} FINISHED" in output
    whole, steps = finished(engine, run)
    assert whole.data.params["workers"]
    logged = steps["train"].data.metrics
    assert any("loss" in name for name in logged), logged
    assert set(STEPS) <= set(engine.steps(run))
    assert re.search(rf"{run} +FINISHED", engine.command("list"))


def test_a_repository_of_ones_own(engine, quick, place):
    start = "builtin://digits"  # any files are
    run, _ = engine.run(**quick, model_name=f"own-{engine.name}", base_model=start)
    whole, steps = finished(engine, run)
    assert whole.data.tags["git.url"] == place.code
    assert re.fullmatch("[0-9a-f]{40}", whole.data.tags["git.commit"])
    # By MLflow's own client, in the job's pod, with credentials that no manifest shows.
    assert "loss_of_its_own" in steps["train"].data.metrics
    logs = engine.command("logs", run, "--step", "train")
    assert "[master-0] it starts from dataset.json test.npz train.npz" in logs
    assert whole.data.tags["base_model.uri"] == start
    assert "[master-0] it begins" in logs and "[master-0] it ends" in logs
    assert place.password not in logs


@pytest.mark.slow
def test_a_run_is_reproduced_with_the_identical_model(engine, quick):
    run, _ = engine.run(**quick, seed=11, min_accuracy=0.9999)  # it is enough that it trains
    output = engine.command("reproduce", run, *engine.images)
    assert f"the model is bit-identical, 2 tensors with 650 parameters, as that of {run}" in output
    whole, steps = engine.recorded(engine.named(output))
    assert whole.info.status == "FINISHED"
    assert whole.data.tags["reproduces"] == engine.recorded(run)[0].info.run_id
    assert set(steps) == {"checkout", "dataset", "train", "finish"}


def test_a_plan_tries_images_and_mlflow_by_a_pod(engine, place, within):
    given = (
        "plan",
        "pytorch-training",
        "-p",
        f"code_url={place.code}",
        "-p",
        "entrypoint=digits.py",
    )
    output = engine.command(*given, "--probe", *engine.images)
    assert " answers, and its artifact store takes files" in output
    assert re.search(r"^  ok +image \S+base\S+ can be pulled$", output, re.M)
    within(60, lambda: not engine.pods("--selector", "app.kubernetes.io/name=trireme-probe"))


def test_a_gate_that_refuses_is_told(engine, quick):
    run, output = engine.run(**quick, model_name="never", min_accuracy=0.9999)
    refusal = r"not exported: held-out accuracy 0\.9\d+ is below"
    assert re.search(refusal, output)
    assert re.search(refusal, engine.command("status", run))
    whole, steps = engine.recorded(run)
    assert whole.info.status == "FINISHED"
    assert "export" not in steps


def test_a_program_that_fails_fails_the_run_with_its_words(engine, quick):
    run, output = engine.run(**quick, args=["--fail"], status=1)
    assert "replica master-0 exited with status 1" in output
    whole, steps = engine.recorded(run)
    assert whole.info.status == steps["train"].info.status == "FAILED"
    assert "master-0" in whole.data.tags["error"]
    assert "the learning rate went to seed" in engine.command("logs", run, "--step", "train")


def test_retry_goes_on_from_the_step_that_failed(engine, quick, within):
    run, _ = engine.run(**quick, args=["--fail-once"], model_name=f"again-{engine.name}", status=1)
    engine.command("resume", run)
    within(900, lambda: engine.state(run), ENDED.__contains__)
    _, steps = finished(engine, run)
    assert steps["checkout"].info.end_time < steps["train"].info.start_time


@pytest.mark.slow
def test_a_search_of_which_one_trial_fails_and_one_is_stopped_early(engine, place):
    run, output = engine.run(
        "sweep",
        code_url=place.code,
        entrypoint="digits.py",
        workers=0,
        search="tpe",
        n_trials=5,
        grid={"--learning-rate": {"low": 0.001, "high": 0.1, "log": True}},
        trials=[{"--fail": True}, {"--worse": True}],
        early_stopping={"metric": "validation loss"},
        model_name=f"best-{engine.name}",
    )
    # Four steps share the seven: the third makes trials 2 and 6.
    last = r"trial-002 finished .* trial-006: .* stopped early: validation loss 9 at report"
    assert re.search(last, output)
    whole, steps = engine.recorded(run)
    assert whole.info.status == "FINISHED"
    trials = [f"trial-{number:03}" for number in range(7)]
    states = [steps[trial].info.status for trial in trials]
    assert states == [*5 * ["FINISHED"], "FAILED", "FINISHED"]
    assert whole.data.tags["model.version"]
    assert set(trials[:4]) <= set(engine.steps(run))
    assert not set(trials[4:]) & set(engine.steps(run))
    logs = engine.command("logs", run, "--step", "trial-001")
    assert "it ends" in logs and "trial-005 --fail True" in logs and "trial-000" not in logs


@pytest.mark.parametrize("when", ["at-once", "checkout", "train-driver", "train"])
def test_cancel(engine, quick, within, when):
    if engine.name == "argo" and when == "train-driver":
        pytest.skip("only Kubeflow has drivers")
    run = engine.begin(**quick, args=["--seconds", "600"])
    if when != "at-once":
        within(600, lambda: engine.pod_of(run, when), pause=0.5)
    if when == "train":
        within(300, lambda: "second 3/" in engine.said(run, "train"))
    engine.command("cancel", run)
    # Kubeflow 2.17 says failed, and forgets a cancellation that its agent has not seen in time.
    words = ("KILLED", "FAILED") if (engine.name, when) == ("kfp", "at-once") else ("KILLED",)
    within(300, lambda: engine.state(run), words.__contains__)
    within(120, lambda: engine.jobs(run), lambda jobs: not jobs)
    engine.command("list")
    if when in ("train-driver", "train"):  # the first step may have had no time to open a record
        whole, steps = engine.recorded(run)
        assert whole.info.status == "KILLED"
        assert steps["dataset"].info.status == "FINISHED"
    if when == "train":
        assert steps["train"].info.status == "KILLED"


@pytest.mark.slow
def test_a_schedule_trains_once_and_then_finds_nothing_to_do(engine, quick, within):
    name = f"minutely-{engine.name}"
    pairs = [f"{key}={value}" for key, value in (quick | {"model_name": name}).items()]
    words = [word for pair in pairs for word in ("-p", pair)]
    schedule = ("schedule", "set", "retraining", "--name", name, *engine.images)
    engine.command(*schedule, "--cron", "* * * * *", *words)
    try:
        runs = within(1200, lambda: engine.ended_of(name), lambda ended: len(ended) > 1)
    finally:
        engine.command("schedule", "delete", name)
    first, second = (engine.recorded(run) for run in runs[:2])
    assert first[0].info.status == second[0].info.status == "FINISHED"
    assert {"train", "export"} <= set(first[1])
    assert "train" not in second[1]


@pytest.mark.slow
def test_a_schedule_that_is_changed_or_deleted_leaves_its_run_alone(engine, quick, within):
    name = f"changing-{engine.name}"
    parameters = quick | {"args": json.dumps(["--seconds", "60"]), "model_name": name}
    words = [word for key, value in parameters.items() for word in ("-p", f"{key}={value}")]
    schedule = ("schedule", "set", "pytorch-training", "--name", name, *engine.images, *words)
    engine.command(*schedule, "--cron", "* * * * *")
    (run,) = within(180, lambda: engine.runs_of(name))[:1]
    engine.command(*schedule, "--cron", "0 3 * * *")
    engine.command("schedule", "delete", name)
    within(900, lambda: engine.state(run), ENDED.__contains__)
    finished(engine, run)


@pytest.mark.slow
def test_a_champion_is_deployed_and_the_next_put_back_when_it_is_cancelled(engine, quick, within):
    given = quick | {"model_name": f"served-{engine.name}", "deploy": "deployment"}

    def served():
        """Returns the model versions of the Deployment and of its pods that are ready."""
        deployments = [
            each
            for each in engine.objects("deployments")
            if each["metadata"]["name"] == given["model_name"]
        ]
        label = ("--selector", f"app.kubernetes.io/name={given['model_name']}")
        return [
            each["metadata"]["annotations"]["trireme/model"]
            for each in deployments + engine.pods(*label)
            if each["kind"] == "Deployment" or is_ready(each)
        ]

    slow = ["--learning-rate", "0.002"]
    run, _ = engine.run("retraining", **given, args=slow, min_accuracy=0.3)
    first = f"models:/{given['model_name']}/1"
    assert served() == [first, first]
    assert engine.recorded(run)[1]["deploy"].data.tags["deployed"].endswith("/invocations")

    # As after a night whose deployment failed: there is nothing to train, and it is made up for.
    places.kubectl("delete", "deployment", given["model_name"], namespace=engine.namespace)
    again, _ = engine.run("retraining", **given, args=slow, min_accuracy=0.3)
    assert "train" not in engine.recorded(again)[1]
    assert served() == [first, first]

    run = engine.begin("retraining", **given)
    within(900, served, lambda models: models[0] != first, pause=1)
    engine.command("cancel", run)
    within(300, lambda: engine.state(run), "KILLED".__eq__)
    within(300, served, [first, first].__eq__)


def is_ready(pod):
    """Tells whether a pod answers."""
    conditions = pod["status"].get("conditions", [])
    return {"Ready": "True"}.items() <= {
        each["type"]: each["status"] for each in conditions
    }.items()


@pytest.fixture
def shape(engine, tmp_path):
    """The file of a shape that gives the step count a ConfigMap's files and a variable."""
    name = f"own-rows-{secrets.token_hex(3)}"
    given = {"metadata": {"name": name}, "data": {"greeting": "hello"}}
    places.create(engine.namespace, {"apiVersion": "v1", "kind": "ConfigMap"} | given)
    files = [{"mount": "/of/a/shape", "config_map": name}]
    steps = {"count": {"volumes": files, "env": {"GIVEN": "/of/a/shape"}}}
    (tmp_path / "shape.yaml").write_text(json.dumps({"steps": steps}))
    yield str(tmp_path / "shape.yaml")
    places.kubectl("delete", "configmap", name, namespace=engine.namespace)


def test_a_pipeline_of_ones_own(engine, shape):
    # Kubeflow runs no step again that it has had with the same inputs.
    items = [secrets.token_hex(4) for _ in range(2)]
    run, output = engine.run(OWN, "--shape", shape, items=items)
    assert f"{run} FINISHED" in output
    assert {"checkout", "dataset", "count", "say-000", "say-001"} <= set(engine.steps(run))
    counted = engine.command("logs", run, "--step", "count")
    assert "counting 3 among 3 files" in counted and "given is hello" in counted
    whole, steps = engine.recorded(run)
    assert (whole.info.status, steps["count"].info.status) == ("FINISHED", "FINISHED")
    assert steps["say-001"].info.start_time >= steps["count"].info.start_time
    # A step that comes twice has a record for each.
    assert [steps[name].data.tags["words"] for name in ("note", "note-2")] == ["once", "twice"]
    assert re.search(r"note-2 +FINISHED +\d+ +twice", engine.command("status", run))


def test_a_failure_of_a_step_of_ones_own_is_named(engine):
    run, output = engine.run(OWN, rows=200, status=1)
    assert f"run {run} failed at count" in output
    assert "ValueError: too many rows" in engine.command("logs", run, "--step", "count")
    whole, steps = engine.recorded(run)
    assert whole.info.status == steps["count"].info.status == "FAILED"
    why = "step count failed: ValueError: too many rows"
    assert steps["count"].data.tags["error"] == whole.data.tags["error"] == why


def test_a_pipeline_of_ones_own_that_trains_with_jax(engine):
    run, output = engine.run(OWN_JAX)
    assert f"{run} FINISHED" in output
    scored = re.search(r"held-out accuracy (\S+)", engine.command("logs", run, "--step", "score"))
    assert scored and float(scored[1]) > 0.85
    _, steps = engine.recorded(run)
    assert steps["train"].data.metrics["accuracy"] > 0.9  # as the trainer's rank 0 has logged it


def test_a_pipeline_of_ones_own_that_registers_a_model_of_xgboost(engine, place):
    given = {"code_url": place.code, "model_name": f"boosted-{engine.name}"}
    run, _ = engine.run(OWN_XGBOOST, **given)
    finished(engine, run)
    (version,) = engine.client.search_model_versions(f"name='{given['model_name']}'")
    assert version.tags["form"] == "xgboost"
