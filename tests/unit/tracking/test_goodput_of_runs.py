"""What the time of trainings went to, by a real MLflow store: ``trireme goodput``."""

import json
import time

import pytest
from typer.testing import CliRunner

from trireme.cli.app import app
from trireme.observers.goodput.ledger import Ledger, metrics

LEDGERS = {
    "first": Ledger(
        seconds={"training": 3000.0, "queue": 600.0, "first_step": 300.0, "checkpoint": 300.0},
        gpu_seconds={"training": 6000.0, "first_step": 600.0, "checkpoint": 600.0},
        cost={"training": 2.0, "first_step": 0.2, "checkpoint": 0.2},
        ran=3600.0,
        replica_seconds=7200.0,
        interruptions=1,
        restarts=1,
        restarting=30.0,
        checkpoints=100,
        stops=100,
        gaps=99,
        between=99 * 33.0,
    ),
    "second": Ledger(
        seconds={"training": 900.0, "hang": 100.0}, ran=1000.0, replica_seconds=1000.0
    ),
}


@pytest.fixture
def goodput(store, monkeypatch):
    """Calls the command with a store of three runs, one of which is no pipeline's."""
    client, experiment, directory = store
    for name, of in LEDGERS.items():
        tags = {"pipeline": name, "currency": "EUR", "mlflow.runName": f"run-{name}"}
        run = client.create_run(experiment, tags=tags).info.run_id
        for metric, value in metrics(of).items():
            client.log_metric(run, metric, value)
        step = client.create_run(experiment, tags=tags | {"mlflow.parentRunId": run}).info.run_id
        client.log_metric(step, "goodput/ran", 5.0)
        time.sleep(0.01)
    client.log_metric(client.create_run(experiment).info.run_id, "goodput/ran", 5.0)
    odd = client.create_run(experiment, tags={"pipeline": "odd"}).info.run_id
    for metric in metrics(LEDGERS["first"]):
        client.log_metric(odd, metric, float("nan"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{directory / 'mlflow.db'}")
    return lambda *words: CliRunner().invoke(app, ["goodput", *words])


def test_the_sum_and_each_run_are_told(goodput):
    done = goodput()
    assert done.exit_code == 0
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert rows[0] == "RUN STATE AGE GOODPUT TIME GPU HOURS COST INTERRUPTIONS"
    assert [row.split()[0] for row in rows[1:3]] == ["run-second", "run-first"]
    assert "83% 1 h 10 min 2.00 2.40 EUR 1" in rows[2]
    assert "training 75.0% 1 h 05 min 1.67 2.00 EUR" in rows
    assert any(row.startswith("goodput of 2 runs: 85% of 1 h 16 min: training") for row in rows)
    assert rows[-1].startswith("save every 2 min")

    answer = json.loads(goodput("-o", "json").stdout)
    assert [run["pipeline"] for run in answer["runs"]] == ["second", "first"]
    together = answer["together"]
    assert sum(cause["minutes"] for cause in together["causes"]) == pytest.approx(5200 / 60)
    assert together["share"] == pytest.approx(3900 / 4600)
    assert (together["interruptions"], together["checkpoint_seconds"]) == (1, 3.0)

    of_one = json.loads(goodput("-o", "json", "--pipeline", "second").stdout)
    assert [run["name"] for run in of_one["runs"]] == ["run-second"]
    assert of_one["saving"] == ""

    none = goodput("--pipeline", "third")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no training since 30d ago" in none.stderr


def test_a_time_that_is_none_is_refused(goodput):
    done = goodput("--since", "yesterday")
    assert str(done.exception).startswith("--since 'yesterday': must be a number with m, h, d or w")
