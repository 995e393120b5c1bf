"""A pipeline to which one thing happens, at a random moment: it can be resumed, to the same end.

``make faults N=1000`` tries more than ``make test-all`` does. What happens, and when, follows from
the case's number; where in the program that is, also from how fast the machine is.
"""

import os
import random
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from disturbed import CASES, LONGEST, finish

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOM = 1_000_000  # bytes that are left at most


def kill(chosen, process):
    """Ends the command, or what one of its processes does, at once."""
    with suppress(ProcessLookupError):
        os.kill(chosen, signal.SIGKILL)


def terminate(chosen, process):
    """Asks the command to end."""
    process.terminate()


def stop(chosen, process):
    """Stops a process for a while."""
    with suppress(ProcessLookupError):
        os.kill(chosen, signal.SIGSTOP)
        time.sleep(2)
        os.kill(chosen, signal.SIGCONT)


def descendants(pid):
    """Returns a process and all below it."""
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += descendants(int(child))
    return found


@pytest.mark.parametrize("number", range(CASES))
def test_whatever_happens_the_same_command_comes_to_the_same_end(trireme, graded, number):
    chance = random.Random(number)
    what, moment = chance.choice([kill, kill, kill, terminate, stop]), chance.random() * LONGEST
    command = ["run", "pytorch-training", *graded(0.5, "workers=0")]
    process = trireme.start(*command)
    time.sleep(moment)
    below = descendants(process.pid)
    what(chance.choice(below), process)
    output, errors = process.communicate(timeout=300)
    said = f"case {number}: {what.__name__} after {moment:.2f} s\n{output}{errors}"
    assert trireme.wait_for_no_processes() == [], said
    finish(trireme, command, (process.returncode, said))


@pytest.fixture
def disk(trireme):
    """A disk of its own for the data directory; its size can be changed."""
    content = {file.name: file.read_bytes() for file in trireme.home.iterdir()}
    command = ["mount", "-t", "tmpfs", "-o", "size=100m", "trireme", str(trireme.home)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    for name, bytes_of in content.items():
        (trireme.home / name).write_bytes(bytes_of)

    def leave(free):
        """Leaves some bytes free."""
        place = os.statvfs(trireme.home)
        used = (place.f_blocks - place.f_bfree) * place.f_frsize
        size = f"remount,size={used + free}"
        subprocess.run(["mount", "-o", size, str(trireme.home)], check=True)

    yield leave
    subprocess.run(["umount", "--lazy", str(trireme.home)], check=True)


@pytest.mark.parametrize("number", range(max(1, CASES // 6)))
def test_a_full_disk_is_told_and_the_run_resumed_once_there_is_room(trireme, graded, disk, number):
    free = random.Random(number).randrange(ROOM)
    command = ["run", "pytorch-training", *graded(0.5, "workers=0")]
    disk(free)
    done = trireme.run(*command)
    said = f"case {number}: {free:,} bytes\n{done.stdout}{done.stderr}"
    if done.returncode:
        assert done.returncode in (1, 2), said
        last = (done.stdout + done.stderr).strip().splitlines()[-1]
        assert last.startswith("error: "), said
        assert re.search(r"[Nn]o (space|room) |bytes left|[KM]iB left|cannot be written", said), (
            said
        )
    disk(100 << 20)
    finish(trireme, command, (done.returncode, said), failed=(0, 1, 2))
