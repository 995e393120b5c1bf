"""What the steps of a run cost, as they record it themselves."""

import resource
import time

import pytest

from trireme import tracked_step as steps
from trireme.cost import steps as costs
from trireme.cost.prices import Prices
from trireme.errors import StepFailed
from trireme.tracking import journal

WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


@pytest.fixture
def step(monkeypatch, tmp_path):
    """Runs the body of a step of a run; returns what it has recorded, by kind."""
    monkeypatch.setattr("trireme.last_words.TERMINATION_LOG", tmp_path / "none")

    def run(name, body=lambda: None, **options):
        with steps.step(name, str(tmp_path), **options):
            body()
        return recorded(tmp_path, name)

    return run


def recorded(workspace, name):
    found = {"metrics": {}, "total": {}, "tags": {}}
    for record in journal.read(workspace, name):
        for kind, values in found.items():
            values |= record.get(kind, {})
    return found


def test_a_step_costs_what_it_used_and_the_run_what_all_of_them_did(priced, step):
    first = step("checkout")
    assert 0 < first["metrics"]["cost"] == first["total"]["cost"]
    assert first["tags"] == {"currency": "EUR"}
    second = step("dataset")
    assert second["total"]["cost"] == first["metrics"]["cost"] + second["metrics"]["cost"]


def test_a_step_is_not_charged_for_those_before_it_in_its_process(priced, step):
    whole = step("checkout")["metrics"]["cost"]
    for name in ("trial-001", "trial-005"):
        assert 0 <= step(name, is_one_of_many=True)["metrics"]["cost"] < whole / 2


def test_a_step_that_knows_better_is_believed(priced, step):
    step("checkout", lambda: journal.log_metrics({"cost": 1.5}))
    trained = step("train", lambda: journal.log_metrics({"cost": 2.0}))
    assert (trained["metrics"], trained["total"]) == ({"cost": 2.0}, {"cost": 3.5})


def test_a_step_that_fails_costs_too(priced, step, tmp_path):
    def fail():
        raise StepFailed("no luck")

    with pytest.raises(SystemExit):
        step("checkout", fail)
    assert recorded(tmp_path, "checkout")["total"]["cost"] > 0


def test_without_prices_nothing_is_said(no_prices, step):
    assert step("checkout") == {"metrics": {}, "total": {}, "tags": {}}


def test_a_broken_table_ends_a_step_before_it_begins(no_prices, step, capsys):
    no_prices.write_text("currency: EUR")
    begun = []
    with pytest.raises(SystemExit) as ended:
        step("checkout", lambda: begun.append(1))
    assert (ended.value.code, begun) == (2, [])
    assert capsys.readouterr().err.startswith(f"error: price table {no_prices}: prices.cpu_hour")


def test_a_step_that_has_to_be_done_is_not_charged(no_prices, step):
    no_prices.write_text("currency: EUR")
    done = []
    step("finish", lambda: done.append(1), is_charged=False)
    assert done == [1]


def test_what_a_process_has_had_is_measured():
    before = time.process_time()
    cpu_seconds = costs._cost(costing(cpu=3600.0, memory=0.0))
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert before <= cpu_seconds <= time.process_time() + others.ru_utime + others.ru_stime
    gib_seconds = costs._cost(costing(cpu=0.0, memory=3600.0))
    peak = max(resource.getrusage(who).ru_maxrss for who in WHO) / 2**20
    assert 0 < gib_seconds <= peak * costs._seconds()


def costing(cpu, memory):
    return Prices(currency="EUR", cpu_hour=cpu, gib_hour=memory, gpu_hour=0.0)
