"""The mpi image as the MPI operator runs it: workers that are logged in to, and a launcher."""

import subprocess

import pytest

from images import build
from tests.images.containers import Containers, engine, is_built
from trireme.frameworks.mpi import BEFORE_STOP

pytestmark = pytest.mark.images

HOSTS = ["worker-0", "worker-1"]
GATHER = """
from mpi4py import MPI
everybody = MPI.COMM_WORLD.gather(MPI.Get_processor_name())
if everybody: print("hosts", *sorted(everybody))
"""
UNTIL_TOLD = """
import signal, sys, time
from mpi4py import MPI
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
print("ready", flush=True)
while not MPI.COMM_WORLD.allreduce(len(told)):
    time.sleep(0.1)
time.sleep(2 * MPI.COMM_WORLD.rank)  # the time that a checkpoint takes
print("saved", MPI.Get_processor_name(), len(told), flush=True)
MPI.COMM_WORLD.Barrier()
sys.exit(143)
"""


@pytest.fixture
def containers(tmp_path):
    if not is_built("mpi"):
        pytest.skip(f"the image {build.IMAGES['mpi']} is not built here")
    tmp_path.chmod(0o777)
    made = Containers(tmp_path)
    yield made
    made.close()


@pytest.fixture
def workers(containers):
    """Starts the workers; returns the names of their containers."""
    keys = containers.workspace / "keys"
    keys.mkdir()
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(keys / "id_rsa")]
    subprocess.run(make, check=True)
    (keys / "authorized_keys").write_bytes((keys / "id_rsa.pub").read_bytes())
    (keys / "id_rsa").chmod(0o644)  # as the operator mounts it
    slots = "".join(f"{name} slots=1\n" for name in HOSTS)
    (containers.workspace / "hostfile").write_text(slots)
    return [
        containers.start("mpi", "/usr/sbin/sshd", "-De", name=name, options=mounted(containers))
        for name in HOSTS
    ]


def mounted(containers):
    return ("--volume", f"{containers.workspace}/keys:/home/trireme/.ssh:ro")


def launch(containers, program):
    """Starts the launcher; returns the name of its container."""
    file = containers.workspace / "program.py"
    file.write_text(program)
    mpirun = (
        *("mpirun", "-np", "2", "--bind-to", "none", "-x", "PATH"),
        *("--hostfile", str(containers.workspace / "hostfile")),
        *("--mca", "plm_rsh_args", "-o ConnectionAttempts=10"),
        *("python3", str(file)),
    )
    return containers.start("mpi", *mpirun, name="launcher", options=mounted(containers))


def test_mpirun_logs_in_to_workers_with_the_keys_of_the_job(containers, workers):
    status, said = containers.wait(launch(containers, GATHER))
    assert status == 0 and "hosts worker-0 worker-1" in said, said


def test_a_worker_that_has_to_go_tells_its_rank_and_waits_for_it(containers, workers, eventually):
    launcher = launch(containers, UNTIL_TOLD)
    assert eventually(lambda: engine("logs", launcher).stdout.count("ready") == 2)
    done = engine("exec", workers[1], *BEFORE_STOP["preStop"]["exec"]["command"])
    assert done.returncode == 0, done.stderr
    engine("stop", "--time", "0", workers[1])  # as Kubernetes does when the hook has ended
    status, said = containers.wait(launcher)
    assert status == 143, said
    assert "saved worker-0 0" in said and "saved worker-1 1" in said
