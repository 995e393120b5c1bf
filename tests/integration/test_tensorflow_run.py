"""``trireme run tensorflow-training``: whole runs of the reference trainer."""

import json

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("parameters", "replicas"),
    [
        ([], {"worker-0", "worker-1"}),
        (["-p", "parameter_servers=1", "-p", "workers=1"], {"chief-0", "ps-0", "worker-0"}),
    ],
    ids=["allreduce", "parameter-servers"],
)
def test_digits_are_learnt_exported_and_registered(trireme, parameters, replicas):
    done = trireme.call("run", "tensorflow-training", *parameters, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stdout + done.stderr
    (parent,) = trireme.parents()
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["held_out_accuracy"] > 0.95
    steps = trireme.nested(parent)
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}
    assert steps["train"].data.params["framework"] == "tensorflow"
    for step in ("evaluate", "export"):
        assert {"tensorflow", "torch"} & trireme.loaded(step) == {"tensorflow"}
    workspace = trireme.run_directory() / "workspace"
    logs = {file.stem for file in (workspace / "steps" / "train").glob("*-*.log")}
    assert logs == replicas
    assert (workspace / "exported" / "saved_model" / "saved_model.pb").exists()
    manifest = (workspace / "steps" / "train" / "job.yaml").read_text()
    assert "kind: TFJob" in manifest
    given = json.loads((trireme.run_directory() / "parameters.json").read_text())
    assert given["workers"] == len([name for name in replicas if name.startswith("worker")])
    assert trireme.client.get_model_version("classifier", "1").status == "READY"
