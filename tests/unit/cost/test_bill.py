"""What a training job may cost, and what it has cost."""

import textwrap
from pathlib import Path

import pytest
from jobs_of_runs import job_in

from trireme.cost import prices
from trireme.errors import InputError, JobFailed
from trireme.pipeline import catalog
from trireme.runner import bill, training_step
from trireme.runner.bill import Bill
from trireme.runner.failed_replica import TimeLimitReached
from trireme.runner.local import runner
from trireme.tracking import journal


def recorded(workspace, kind):
    """What the training step has recorded, by name."""
    found = {}
    for record in journal.read(workspace, "train"):
        found |= record.get(kind, {})
    return found


@pytest.fixture
def workspace(tmp_path):
    """A run workspace, with the journal of its training step open."""
    with journal.opened(tmp_path, "train"):
        yield tmp_path


def test_replicas_are_charged_for_what_they_request(priced, manifest, workspace):
    job = Bill(0, prices.read())
    job.open(manifest(replicas={"worker": {"count": 2, "gpu": 1}}, workers=None))
    job.charge({"master-0": 3600.0, "worker-0": 3600.0, "worker-1": 1800.0})
    assert recorded(workspace, "metrics") == pytest.approx(
        {
            "replica_seconds": 9000,
            "requested_cpu_hours": 5,
            "requested_gib_hours": 10,
            "requested_gpu_hours": 1.5,
            "cost": 5 + 1.5 * 2,
        }
    )


def test_without_prices_there_is_no_cost(no_prices, manifest, workspace):
    job = Bill(0, prices.read())
    job.open(manifest())
    job.charge({"master-0": 3600.0, "digits-worker-without-labels": 1.0})
    assert recorded(workspace, "metrics")["requested_cpu_hours"] == 2
    assert "cost" not in recorded(workspace, "metrics")


@pytest.mark.parametrize(
    ("own", "budget", "limit"),
    [(None, 6, 3600), (7200, 6, 3600), (60, 6, 60), (None, 1e9, 2**31 - 1), (60, 0, 60)],
)
def test_the_smaller_limit_holds(priced, manifest, workspace, own, budget, limit):
    made = manifest(time_limit=own)
    Bill(budget, prices.read()).open(made)
    assert made["spec"]["runPolicy"]["activeDeadlineSeconds"] == limit
    assert recorded(workspace, "metrics") == ({"effective_time_limit": limit} if budget else {})


def test_only_a_budget_that_has_ended_a_job_is_blamed(priced, manifest):
    reached, failed = TimeLimitReached("the job ran into its time limit"), JobFailed("no luck")
    short, long = Bill(0.01, prices.read()), Bill(100, prices.read())
    for one in (short, long):
        one.open(manifest(time_limit=60))
        one.charge({"master-0": 1.0})
    assert long.explained(reached) is reached
    assert short.explained(failed) is failed


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf")])
def test_what_is_no_amount_of_money_is_refused(budget):
    with pytest.raises(InputError, match="must be an amount of money, or 0 for no limit"):
        bill.check(budget, None)


def test_a_budget_that_limits_nothing_is_refused_before_a_run(no_prices):
    pipeline = catalog.load("pytorch-training")
    with pytest.raises(InputError, match=r"^budget 5: needs a price table, prices\.yaml in"):
        pipeline.complete({"budget": 5.0})
    assert pipeline.complete({"budget": 5.0}, set())["budget"] == 5  # known there only
    no_prices.write_text("{currency: EUR, cpu_hour: 0, gib_hour: 0, gpu_hour: 1}")
    with pytest.raises(InputError, match="this job costs nothing; leave the budget out"):
        pipeline.complete({"budget": 5.0})
    assert pipeline.complete({"budget": 5.0, "job": {"gpu": 1}})["budget"] == 5
    no_prices.write_text("{currency: EUR, cpu_hour: 36000, gib_hour: 0, gpu_hour: 1}")
    with pytest.raises(InputError) as caught:
        pipeline.complete({"budget": 5.0, "job": {"cpu": 2}})
    assert str(caught.value) == (
        "budget 5: is not enough for a second of this job, which costs 144,000.00 EUR an hour"
    )
    no_prices.write_text("nonsense")
    with pytest.raises(InputError, match=r"^price table "):
        pipeline.complete({})


@pytest.fixture
def train(priced, workspace, monkeypatch):
    """Trains with a program, as one process that costs 2 EUR an hour."""
    monkeypatch.setattr(runner, "SETTLE", 0.5)
    (workspace / "code").mkdir()

    def train(program: str, budget: float) -> None:
        (workspace / "code" / "train.py").write_text(textwrap.dedent(program))
        job = job_in(workspace, workers=0, job={"cpu": 2, "memory": "4Gi"})
        training_step.train(job, workspace, budget=budget)

    return train


def test_a_job_that_has_used_up_its_budget_says_so(train, workspace):
    with pytest.raises(JobFailed) as caught:
        train("import time; print('so far', flush=True); time.sleep(60)", 10.1 / 3600)
    said, spent = str(caught.value), recorded(workspace, "metrics")["cost"]
    assert said.startswith("the budget of 0.0028 EUR, enough for 5 s of this job, is used up: ")
    assert said.endswith(prices.read().in_words(spent))
    assert caught.value.detail == "[master-0] so far"
    assert "activeDeadlineSeconds: 5" in Path(workspace, "steps/train/job.yaml").read_text()


def test_a_job_that_fails_has_cost_something_all_the_same(train, workspace):
    with pytest.raises(JobFailed, match="exited with status 3"):
        train("raise SystemExit(3)", 1.0)
    assert recorded(workspace, "metrics")["cost"] > 0
    assert recorded(workspace, "metrics")["effective_time_limit"] == 1800


def test_a_job_that_succeeds_costs_what_its_replicas_took(train, workspace):
    train("", 1.0)
    metrics = recorded(workspace, "metrics")
    assert metrics["cost"] == pytest.approx(metrics["replica_seconds"] / 3600 * 2)
