"""How often to save, by Young and Daly."""

import math
import random

import pytest

from trireme.observers.goodput import interval
from trireme.observers.goodput.ledger import Ledger


@pytest.mark.parametrize(("stop", "between"), [(1, 3600), (60, 3600), (300, 3600), (5, 86400)])
def test_it_is_where_the_least_is_lost(stop, between):
    every = interval.best(stop, between)
    least = min(
        (interval.lost(at, stop, between, 0), at)
        for at in (every * n / 1000 for n in range(200, 3000))
    )
    assert interval.lost(every, stop, between, 0) == pytest.approx(least[0], rel=0.01)
    assert math.isclose(every, math.sqrt(2 * stop * between), rel_tol=0.2)


def test_where_a_stop_is_as_long_as_it_runs_it_is_that():
    assert interval.best(3600, 1800) == 1800


def test_where_nothing_is_ever_done_all_is_lost():
    assert interval.lost(10, 1, 100, restart=86_400) == 1.0
    assert interval.lost(60_000, 1, 100, restart=0) == 1.0


def test_what_is_lost_is_what_a_simulation_loses():
    every, stop, between, restart = 100.0, 10.0, 500.0, 30.0
    seed, spent, done = random.Random(3), 0.0, 0
    while done < 20_000:
        fails = seed.expovariate(1 / between)
        if fails >= every + stop:
            spent, done = spent + every + stop, done + 1
            continue
        spent += fails
        while (again := seed.expovariate(1 / between)) < restart:
            spent += again
        spent += restart
    assert interval.lost(every, stop, between, restart) == pytest.approx(
        1 - done * every / spent, rel=0.02
    )


def test_it_follows_from_a_ledger_where_that_knows_enough():
    known = Ledger(
        seconds={"training": 7000, "checkpoint": 20},
        stops=10,
        checkpoints=10,
        gaps=8,
        between=800,
        ran=7200,
        replica_seconds=4 * 7200,
        interruptions=2,
        restarts=2,
        restarting=60,
    )
    saving = interval.how_often(known)
    assert (saving.stop, saving.between, saving.now) == (2, 3600, 98)
    assert saving.every == pytest.approx(math.sqrt(2 * 2 * 3600), rel=0.05)
    assert saving.lost < saving.lost_now
    assert interval.how_often(known, replicas=16).between == pytest.approx(900)
    assert str(saving).startswith("save every 1 min 5")
    assert interval.how_often(Ledger(ran=7200, stops=3, seconds={"checkpoint": 9})) is None
    assert interval.how_often(Ledger(ran=7200, interruptions=1)) is None
