"""The ledger of a real run with a kill, a resume and checkpoints, beside what its program notes."""

import json

import pytest

from trireme.observers import goodput, timeline
from trireme.observers.base import Observers
from trireme.observers.goodput.kept import read
from trireme.observers.goodput.ledger import metrics
from trireme.observers.goodput.observer import Goodput
from trireme.observers.hangs import Hangs
from trireme.observers.progress import Meter
from trireme.observers.timeline import RUNNING, Timeline
from trireme.runner.local import runner

PROGRAM = """
import json, os, time
from pathlib import Path

out = Path(os.environ["OUT"])
noted = {"steps": {}, "saves": []}

def until(file):
    while not (out / file).exists():
        time.sleep(0.02)

if os.environ["RANK"] != "0":
    until("done")
    raise SystemExit
time.sleep(1.5)  # to begin with
saved = out / "checkpoints" / "last"
first = int(saved.read_text().split()[0]) if saved.exists() else 0
for step in range(first + 1, 41):
    time.sleep(0.2)
    noted["steps"][step] = time.time()
    print(f"step {step}/40", flush=True)
    if step % 20 == 0:
        began = time.time()
        with (out / "checkpoints" / "partial").open("w") as file:
            for _ in range(30):
                print(step, file=file, flush=True)
                time.sleep(0.1)
        (out / "checkpoints" / "partial").rename(saved)
        noted["saves"].append((began, time.time()))
    if step == 35 and not first:
        (out / "first.json").write_text(json.dumps(noted))
        os.kill(os.getpid(), 9)
(out / "second.json").write_text(json.dumps(noted))
(out / "done").touch()
"""


@pytest.mark.slow
def test_each_cause_is_what_the_program_noted(manifest, logs, impatient, tmp_path):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    job, hangs = manifest(PROGRAM, restart="OnFailure"), Hangs()
    file = logs / goodput.NAME
    found = []
    kept = Goodput(file, "master-0", job, hangs, checkpoints=checkpoints)
    meter = Meter("master-0", count=kept.count)
    line = Timeline(logs / timeline.NAME)
    runner.run(job, logs, Observers([meter, hangs, line, kept], found.append))
    first, second = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("first", "second")
    )
    steps, again = ({int(n): at for n, at in each["steps"].items()} for each in (first, second))
    stops = sum(ended - began for each in (first, second) for began, ended in each["saves"])
    of, life = read(file), timeline.read(logs / timeline.NAME)["master-0"]
    one, two = (span for span in life.spans if span.state == RUNNING)
    expected = {
        "first_step": steps[1] - one.began + again[21] - two.began,
        "checkpoint": stops,
        "restart": two.began - one.ended,
        "repeated": again[35] - again[21],
        "training": one.ended - steps[1] + two.ended - again[35] - stops,
    }
    assert len(first["saves"]) == len(second["saves"]) == 1
    for cause, seconds in expected.items():
        # A line is read a moment after it was printed.
        assert of.seconds[cause] == pytest.approx(seconds, rel=0.05, abs=0.3), (cause, of)
    assert (of.interruptions, of.checkpoints, of.stops) == (1, 2, 2)
    assert sum(of.seconds.values()) == pytest.approx(of.whole)
    assert {**found[-1].metrics} == pytest.approx(metrics(of))
