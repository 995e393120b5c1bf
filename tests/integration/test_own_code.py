"""Somebody else's script, from somebody else's repository, on somebody else's data."""

import json

import numpy as np
import programs
import pytest
import torch

pytestmark = pytest.mark.slow

# What shells, Kubernetes, kfp and JSON might each take for something of theirs.
STRANGE = ["$(HOME)", "$$", "a b", '"', "'", "\\n", "é{{x}}", "", "*", "$(DATA_DIR)"]


PLAIN = """\
import argparse, json, os
import numpy as np
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--tag")
given = vars(parser.parse_args())
rows = len(np.load("input/test.npz")["x"])
with open(os.path.join(os.environ["MODEL_DIR"], "model.json"), "w") as file:
    json.dump(given | {"rows": rows}, file)
"""


@pytest.fixture
def points(tmp_path):
    """Points on two sides of a line: what the script trains on, and what it is held to."""
    directory = tmp_path / "my points"
    directory.mkdir()
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    torch.save(
        {"x": torch.from_numpy(x[:300]), "y": torch.from_numpy(y[:300])}, directory / "samples.pt"
    )
    np.savez(directory / "test.npz", x=x[300:], y=y[300:])
    return directory


def test_a_script_is_started_in_one_line_from_where_it_lies(trireme, points, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PLAIN)
    points.rename(project / "input")
    words = ("--data", str(project / "input"), "--", "--lr", "0.01", "--tag", "a b")
    result = trireme.call("run", str(project / "train.py"), *words)
    assert result.returncode == 0, result.stderr
    assert "input is the dataset and no code" in result.stderr
    assert (trireme.run_directory() / "workspace/code/input").is_symlink()
    model = trireme.run_directory() / "workspace" / "model"
    assert json.loads((model / "model.json").read_text()) == {"lr": 0.01, "tag": "a b", "rows": 100}
    assert trireme.call("status").stdout.partition(":")[0].endswith("-pytorch-training")
    assert trireme.call("cancel", "latest").returncode == 2  # it has ended


def test_an_unmodified_torchrun_script_trains_is_evaluated_and_exported(
    trireme, repository, points
):
    code = repository(train=programs.TORCHRUN_STYLE)
    result = trireme.call(
        "run",
        "pytorch-training",
        *("-p", f"code_url={code}"),
        *("-p", "code_revision=main"),
        *("-p", "entrypoint=train.py"),
        *("-p", f"args={json.dumps(['--steps', '50', '--text', *STRANGE])}"),
        *("-p", f"dataset_uri={points}"),
        *("-p", "workers=0", "-p", "processes_per_worker=2"),
        *("-p", "model_name=points"),
        PYTHONPROFILEIMPORTTIME="1",
    )
    assert result.returncode == 0, result.stderr
    for step in ("evaluate", "export"):
        assert {"tensorflow", "torch"} & trireme.loaded(step) == {"torch"}
    (parent,) = trireme.parents()
    assert parent.data.metrics["held_out_accuracy"] > 0.9
    workspace = trireme.run_directory() / "workspace"
    seen = json.loads((workspace / "model" / "seen.json").read_text())
    expanded = {"$$": "$", "$(DATA_DIR)": str(workspace / "data")}
    assert seen["text"] == [expanded.get(text, text) for text in STRANGE]
    assert sorted(seen["ranks"]) == [[0, 0], [1, 1]]
    assert (workspace / "checkpoints" / "last").exists()
    assert (workspace / "exported" / "model.onnx").exists()
    (version,) = trireme.client.search_model_versions("name = 'points'")
    assert version.version == 1


def test_weights_alone_are_kept_and_the_run_says_what_is_missing(trireme, repository):
    code = repository(train=programs.BARE_WEIGHTS)
    mine = ("run", "pytorch-training", "-p", f"code_url={code}", "-p", "entrypoint=train.py")
    result = trireme.call(*mine)
    assert result.returncode == 0, result.stderr
    summary = result.stdout.partition("FINISHED\n")[2]
    assert "give model_factory=module:callable" in summary
    workspace = trireme.run_directory() / "workspace"
    assert str(workspace / "model") in summary
    assert (workspace / "model" / "weights.pth").exists()
    assert not (workspace / "exported").exists()
    assert trireme.parents()[0].info.status == "FINISHED"


def test_weights_with_a_factory_are_evaluated_and_held_at_the_gate(trireme, repository):
    code = repository(train=programs.BARE_WEIGHTS)
    result = trireme.call(
        "run",
        "pytorch-training",
        *("-p", f"code_url={code}"),
        *("-p", "entrypoint=train.py"),
        *("-p", "workers=0"),
        *("-p", "model_factory=train:Net"),
    )
    assert result.returncode == 0, result.stderr
    (parent,) = trireme.parents()
    assert parent.data.metrics["held_out_accuracy"] < 0.5  # it never learned anything
    assert "is below min_accuracy 0.9" in result.stdout
    assert "is below min_accuracy 0.9" in parent.data.tags["gate"]
    assert "export" not in trireme.nested(parent)
    assert trireme.client.search_model_versions() == []
