"""An XGBoostJob for real: the reference trainer on two processes, one with the tracker."""

import importlib.util

import numpy as np
import pytest
from jobs_of_frameworks import on_own_hosts, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("xgboost"), reason="needs XGBoost"),
]


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A job of a master and a worker that train for twelve rounds."""
    return run("xgboost", tmp_path_factory.mktemp("xgboost"), "--rounds", "12", workers=1)


def test_two_processes_learn_the_digits_and_leave_one_model(digits):
    import xgboost

    assert set(digits.seconds) == {"master-0", "worker-0"}
    assert digits.speaker == {"master-0"}
    assert digits.figures(12)[1] > 0.99
    with np.load(digits.folder / "data" / "test.npz") as test:
        images = xgboost.DMatrix(test["x"].reshape(len(test["x"]), -1))
        model = xgboost.Booster(model_file=digits.folder / "model" / "model.ubj")
        assert (model.predict(images).argmax(1) == test["y"]).mean() > 0.85


def test_training_goes_on_from_the_last_checkpoint(digits):
    again = run("xgboost", digits.folder, "--rounds", "13", workers=0)
    assert "resuming after round 10" in again.lines("master-0")
    assert again.figures(13)[0] < digits.figures(12)[0]


@on_own_hosts
def test_processes_on_hosts_of_their_own_find_each_other(tmp_path):
    job = run("xgboost", tmp_path, "--rounds", "2", workers=1, isolated=True)
    assert job.figures(2)[0] < job.figures(1)[0]
