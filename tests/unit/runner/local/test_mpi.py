"""What the embedded runner makes of an MPIJob: the operator's values, and mpirun's reports."""

import os

import pytest

from trireme.errors import InputError
from trireme.frameworks.mpi import failed_rank
from trireme.runner.local.manifest import read
from trireme.runner.local.network import Loopback
from trireme.runner.local.pod import processes as processes_of

ABORT = """[1,0]<stdout>:rank 0 is fine
[1,2]<stderr>:Traceback (most recent call last):
[1,1]<stdout>:rank 1 is fine
[1,2]<stderr>:ValueError: no data
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 1.
""".splitlines()
EXITED = """[1,1]<stdout>:oh dear
[1,0]<stdout>:going on
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[5097,1],1]
  Exit code:    7
""".splitlines()
KILLED = """[1,0]<stdout>:step 1
[1,3]<stdout>:step 2
mpirun noticed that process rank 3 with PID 7 on node job-worker-1 exited on signal 9 (Killed).
""".splitlines()


@pytest.mark.parametrize(
    ("lines", "rank", "said"),
    [
        (ABORT, 2, ["Traceback (most recent call last):", "ValueError: no data"]),
        (EXITED, 1, ["oh dear"]),
        (KILLED, 3, ["step 2"]),
        (["[1,0]<stdout>:x", "y"], None, ["x", "y"]),
        ([], None, []),
        (EXITED[2:], 1, EXITED[2:]),
    ],
)
def test_the_rank_that_failed_is_found_with_what_it_said(lines, rank, said):
    assert failed_rank(lines) == (rank, said)


@pytest.fixture
def processes(job, replicas, tmp_path):
    """Returns the environment of an MPIJob's processes by replica, and its hostfile."""

    def make(spec=None, worker=None):
        made = job("MPIJob", spec=spec, Launcher=replicas(["mpirun"]), Worker=worker)
        with Loopback() as network:
            found = processes_of(read(made), network, tmp_path, tmp_path)
            variables = {pod.name: environment for pod, _, environment in found}
        return variables, (tmp_path / "hostfile").read_text()

    return make


def test_the_launcher_gets_what_the_operator_gives_it(processes, replicas, tmp_path):
    variables, hostfile = processes({"slotsPerWorker": 2}, replicas(None, 2))
    # pkg/controller/mpi_job_controller.go of MPI operator v0.8: newConfigMap, ompiEnvVars.
    assert hostfile == (
        "job-worker-0.job.default.svc slots=2\njob-worker-1.job.default.svc slots=2\n"
    )
    expected = {
        "K_MPI_JOB_ROLE": "launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": str(tmp_path / "hostfile"),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": "2",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    assert expected.items() <= variables["launcher-0"].items()


def test_a_worker_shows_a_session_no_more_than_sshd_would(processes, replicas, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    variables, _ = processes(None, replicas(None, env={"SEED": "7"}))
    assert variables["launcher-0"]["TOKEN"] == "secret"
    assert not {"TOKEN", "SEED"} & set(variables["worker-0"])
    assert variables["worker-0"]["PATH"] == variables["launcher-0"]["PATH"]


def test_a_worker_with_a_command_of_its_own_is_refused(processes, replicas):
    processes(None, replicas(["/usr/sbin/sshd", "-De"]))
    with pytest.raises(InputError, match="command of Worker 'sleep' cannot run here"):
        processes(None, replicas(["sleep", "600"]))


def test_mpirun_has_to_be_there(processes, replicas, monkeypatch):
    monkeypatch.setitem(os.environ, "PATH", "/none")
    with pytest.raises(InputError, match="needs mpirun on this machine: install OpenMPI"):
        processes(None, replicas(None))
