"""How far the training of somebody's program is, whose bars are tqdm's."""

import re

import pytest

pytestmark = pytest.mark.slow

BARS = """
import pathlib, os, sys, time
from tqdm import tqdm

go_on = pathlib.Path(sys.argv[1])
for epoch in (1, 2):
    for step in tqdm(range(40), desc=f"Epoch {epoch}/2"):
        time.sleep(0.05)
        while epoch == 2 and step == 20 and not go_on.exists():
            time.sleep(0.05)
    for step in tqdm(range(4), desc="Validation"):
        time.sleep(0.1)
raise SystemExit(0 if "JOB" in os.environ else "enough")
"""
SPEED = r"[\d.]+ (?:steps/s|s/step)"  # which of them is the machine's doing
HALF_OF_THE_SECOND = re.compile(rf"7[45]%, {SPEED}, 0:\d\d left")


def test_a_job_s_status_tells_it_while_a_bar_is_rewritten(trireme, tmp_path, eventually):
    (trireme.home / "train.py").write_text(BARS)
    go_on = tmp_path / "go-on"
    options = ["--local", "--name", "bars", "--entrypoint", "train.py", "--env", "JOB=1"]
    job = trireme.start("job", "submit", *options, "--args", str(go_on))

    def status():
        return trireme.call("job", "status", "bars", "--local").stdout

    try:
        assert eventually(lambda: HALF_OF_THE_SECOND.search(status())), status()
    finally:
        go_on.touch()
        output, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    assert re.search(rf"^progress: 100%, {SPEED}$", status(), re.MULTILINE)
    # A bar is a line when it has ended, and not one for each of its states.
    assert len(re.findall(r"^\[master-0\] Epoch", output, re.MULTILINE)) == 2


def test_a_run_tells_it_in_its_status_in_mlflow_and_in_its_output(
    trireme, repository, tmp_path, eventually
):
    code, go_on, data = repository(train=BARS), tmp_path / "go-on", tmp_path / "rows"
    data.mkdir()
    (data / "rows.csv").write_text("1,2\n")
    words = [f"code_url={code}", "entrypoint=train.py", f"dataset_uri={data}", "workers=0"]
    words.append(f'args=["{go_on}"]')
    run = trireme.start("run", "pytorch-training", *(f"-p{word}" for word in words))

    def row():
        found = trireme.call("status", trireme.run_directory().name).stdout
        return next((line for line in found.splitlines() if line.startswith("train ")), "")

    def tag():
        steps = trireme.nested(trireme.parents()[0])
        return steps["train"].data.tags.get("progress", "") if "train" in steps else ""

    try:
        assert eventually(lambda: any((trireme.home / "runs").glob("*/run.json")))
        assert eventually(lambda: HALF_OF_THE_SECOND.search(row())), row()
        assert row().split()[1] == "running"
        assert eventually(lambda: HALF_OF_THE_SECOND.search(tag())), tag()
    finally:
        go_on.touch()
        output, errors = run.communicate(timeout=120)
    assert run.returncode == 1 and "enough" in errors, errors
    assert re.search(rf"^train +5\d%, {SPEED}, 0:\d\d left$", output, re.MULTILINE), output
    assert re.fullmatch(r"100%, [\d.]+ steps/s", tag())
    assert "100%" not in row()  # how it ended is what counts
