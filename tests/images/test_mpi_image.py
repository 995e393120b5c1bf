"""The mpi image as the MPI operator runs it: workers that are logged in to, and a launcher."""

import subprocess

import pytest

from images import build
from tests.images.containers import Containers, is_built

pytestmark = pytest.mark.images

PROGRAM = """
from mpi4py import MPI
everybody = MPI.COMM_WORLD.gather(MPI.Get_processor_name())
if everybody: print("hosts", *sorted(everybody))
"""


@pytest.fixture
def containers(tmp_path):
    if not is_built("mpi"):
        pytest.skip(f"the image {build.IMAGES['mpi']} is not built here")
    tmp_path.chmod(0o777)
    made = Containers(tmp_path)
    yield made
    made.close()


def test_mpirun_logs_in_to_workers_with_the_keys_of_the_job(containers, eventually):
    keys = containers.workspace / "keys"
    keys.mkdir()
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(keys / "id_rsa")]
    subprocess.run(make, check=True)
    (keys / "authorized_keys").write_bytes((keys / "id_rsa.pub").read_bytes())
    (keys / "id_rsa").chmod(0o644)  # as the operator mounts it
    mounted = ("--volume", f"{keys}:/home/trireme/.ssh:ro")
    hosts = [f"worker-{number}" for number in range(2)]
    for name in hosts:
        containers.start("mpi", "/usr/sbin/sshd", "-De", name=name, options=mounted)
    (containers.workspace / "hostfile").write_text("".join(f"{name} slots=1\n" for name in hosts))
    (containers.workspace / "hosts.py").write_text(PROGRAM)
    launcher = (
        *("mpirun", "-np", "2", "--bind-to", "none", "-x", "PATH"),
        *("--hostfile", str(containers.workspace / "hostfile")),
        *("--mca", "plm_rsh_args", "-o ConnectionAttempts=10"),
        *("python3", str(containers.workspace / "hosts.py")),
    )
    done = containers.run("mpi", *launcher, name="launcher", options=mounted)
    assert "hosts worker-0 worker-1" in done.stdout, done.stderr
