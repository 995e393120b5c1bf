"""The launcher's memory does not grow with what a job prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trireme.runner.cluster import runner

# Its own high-water mark, in KiB.
MARK = "int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
ALONE = f"""
import json, sys
from pathlib import Path
from trireme.kubernetes.connection import Cluster
from trireme.observers.base import Observers
from trireme.observers.printing import Printing
from trireme.runner.cluster.follower import Limits
from trireme.runner.cluster.runner import launch
before, heard = {MARK}, 0
def on_line(replica, line):
    global heard
    heard += len(line)
    if line == "the last":
        print("heard", flush=True)
launch(json.loads(sys.argv[1]), Cluster(), Limits(), Observers([Printing(on_line)]))
print(heard, {MARK} - before)
"""


@pytest.fixture
def cluster(standing_in):
    """One cluster is enough to see it."""
    return standing_in


@pytest.mark.slow
@pytest.mark.parametrize("lines", [["x" * 60_000_000], ["x" * 600] * 100_000])
def test_a_replica_may_print_a_lot(cluster, player, pytorch, lines):
    process = subprocess.Popen(
        [sys.executable, "-c", ALONE, json.dumps(pytorch)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(runner.__file__).parents[3],
    )
    job = player.wait_for(pytorch)
    pod = player.pod(job, "master")
    player.run(pod)
    player.logs.write(pod, *lines, "the last")
    assert process.stdout.readline() == "heard\n"
    player.exit(pod, 0)
    player.condition(job, "Succeeded")
    output, _ = process.communicate(timeout=60)
    heard, growth = map(int, output.split())
    assert heard == 60_000_000 + len("the last")
    assert growth < 30 * 1024
