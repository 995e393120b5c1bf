"""Fields of a job that go together, and those that do not."""

import pytest
from small_jobs import CLAIM, MPI, PYTORCH, TENSORFLOW, job, refusal

from trireme.job.job import TrainingJob


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "needs an entrypoint, a module or a command"),
        (PYTORCH | {"module": "a", "command": ["b"]}, "give only one of entrypoint and module and"),
        (
            PYTORCH | {"replicas": {"ps": {}}},
            "replicas.ps: a pytorch job has the roles master, worker",
        ),
        (
            PYTORCH | {"replicas": {"master": {"count": 2}}},
            "replicas.master.count 2: there is one master",
        ),
        (
            PYTORCH | {"workers": 2, "replicas": {"worker": {"count": 1}}},
            "workers 2 and replicas.worker.count 1: give one of them",
        ),
        (
            TENSORFLOW | {"workers": 0, "replicas": {"ps": {}}},
            "replicas.ps: parameter servers need at least one worker",
        ),
        (
            TENSORFLOW | {"workers": 0, "replicas": {"evaluator": {}}},
            "workers 0: the job has no replica that trains",
        ),
        (
            TENSORFLOW | {"replicas": {"chief": {"count": 2}}},
            "replicas.chief.count 2: there is one chief",
        ),
        (TENSORFLOW | {"workers": 0}, "workers 0: the job has no replica that trains"),
        (MPI | {"workers": 0}, "workers 0: an mpi job needs at least one worker"),
        (
            MPI | {"replicas": {"worker": {"args": ["x"]}}},
            "replicas.worker.args: a worker of an mpi job waits for mpirun; give the launcher",
        ),
        (
            TENSORFLOW | {"processes_per_worker": 2},
            "processes_per_worker 2: a replica of a tensorflow job is one process",
        ),
        (
            {"entrypoint": "train.py", "framework": "jax", "gpu": 1},
            "gpu 1: there is no jax image for GPUs; give one",
        ),
        (
            TENSORFLOW | {"elastic": {"min": 1, "max": 2}},
            "elastic: only pytorch jobs can be elastic, this one is tensorflow",
        ),
        (
            PYTORCH | {"elastic": {"min": 1, "max": 2}, "replicas": {"master": {}}},
            "elastic: a master would fix the world size; give workers only",
        ),
        (
            PYTORCH | {"elastic": {"min": 2, "max": 3}, "workers": 1},
            "workers 1: must be from 2 to 3, as elastic says",
        ),
        (
            PYTORCH | {"elastic": {"min": 2, "max": 3}, "workers": 4},
            "workers 4: must be from 2 to 3, as elastic says",
        ),
        (
            PYTORCH | {"retries": 1, "restart_policy": "Never"},
            "retries 1: nothing is restarted with restart_policy Never; give OnFailure or ExitCode",
        ),
        (
            PYTORCH | {"restart_policy": "Never", "scheduling": {"spot": "gke"}},
            "restart_policy Never: a job on spot nodes would end with the first node",
        ),
        (
            PYTORCH | {"restart_policy": "Always"},
            "restart_policy Always: the job would never end, because its master is started again",
        ),
        (
            MPI | {"restart_policy": "ExitCode"},
            "restart_policy ExitCode: mpi jobs take Never or OnFailure",
        ),
        (
            PYTORCH | {"success_policy": "AllWorkers"},
            "success_policy AllWorkers: only tensorflow jobs have one",
        ),
        (
            TENSORFLOW | {"success_policy": "AllWorkers", "replicas": {"chief": {}}},
            "success_policy AllWorkers: a job with a chief succeeds with that alone",
        ),
        (MPI | {"run_as_user": 1000}, "run_as_user 1000: ssh between the hosts of an mpi job"),
        (
            PYTORCH | {"gpu": 1, "devices": {"nvidia.com/gpu": 2}},
            "devices.nvidia.com/gpu of the master: give gpu or this, not both",
        ),
        (
            PYTORCH | {"env": {"A": "1"}, "secret_env": {"A": "b/c"}},
            "A is in env and in secret_env: give it in one of them",
        ),
        (PYTORCH | {"env": {"DATA_DIR": "/d"}}, "env.DATA_DIR: give data_dir instead"),
        (PYTORCH | {"env": {"RANK": "0"}}, "env.RANK: is set for each replica of a pytorch job"),
        (
            PYTORCH | {"env": {"PET_NNODES": "1:2"}},
            "env.PET_NNODES: is set for each replica of a pytorch job",
        ),
        (
            TENSORFLOW | {"secret_env": {"TF_CONFIG": "a/b"}},
            "secret_env.TF_CONFIG: is set for each replica of a tensorflow job",
        ),
        (
            MPI | {"env": {"OMPI_MCA_plm_rsh_args": "-v"}},
            "env.OMPI_MCA_plm_rsh_args: is set for each replica of a mpi job",
        ),
        (
            PYTORCH | {"labels": {"app.kubernetes.io/managed-by": "me"}},
            "labels.app.kubernetes.io/managed-by: is reserved for Trireme",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields, said):
    assert refusal(fields).startswith(said)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/a"}, CLAIM | {"mount": "/a/"}]},
            "volumes.1.mount /a: is mounted twice, by volumes.0.mount as well",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "//dev/./shm"}]},
            "volumes.0.mount /dev/shm: is mounted twice, by shared_memory as well",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/"}]},
            "volumes.0.mount '/': must not be / or hold a colon",
        ),
        (
            PYTORCH | {"volumes": [CLAIM | {"mount": "/a:b"}]},
            "volumes.0.mount '/a:b': must not be / or hold a colon",
        ),
        (
            PYTORCH
            | {
                "code": {"url": "https://example.org/a"},
                "volumes": [CLAIM | {"mount": "/root/code"}],
            },
            "volumes.0.mount /root/code: is mounted twice, by code_dir as well",
        ),
        (
            PYTORCH
            | {"code": {"url": "https://example.org/a"}, "data_dir": "/root/code/data"}
            | {"dataset": "pvc://data"},
            "data_dir /root/code/data: is inside /root/code of code_dir, which the repository is",
        ),
        (
            PYTORCH | {"dataset": "pvc://data", "model_dir": "/workspace/data/model"},
            "model_dir /workspace/data/model: is inside /workspace/data of data_dir, which is read",
        ),
        (
            PYTORCH | {"volumes": [{"mount": "/workspace", "secret": "keys"}]},
            "checkpoint_dir /workspace/checkpoints: is inside /workspace of volumes.0.mount, which",
        ),
        (
            PYTORCH
            | {"volumes": [CLAIM | {"mount": "/a/b"}, CLAIM | {"mount": "/a", "read_only": True}]},
            "volumes.0.mount /a/b: is inside /a of volumes.1.mount, which is read-only",
        ),
        (
            MPI | {"volumes": [{"mount": "/root/.ssh", "secret": "keys"}]},
            "volumes.0.mount /root/.ssh: is mounted twice, by the operator's mount as well",
        ),
        (
            MPI | {"volumes": [{"mount": "/etc", "config_map": "a"}]},
            "the operator's mount /etc/mpi: is inside /etc of volumes.0.mount, which is read-only",
        ),
    ],
)
def test_mounts_that_are_in_each_other_s_way_are_refused(fields, said):
    assert refusal(fields).startswith(said)


def test_mounts_that_are_not_in_each_other_s_way():
    volumes = [CLAIM | {"mount": "/workspace"}, CLAIM | {"mount": "/workspace/data"}]
    volumes.append({"mount": "/workspacex", "secret": "keys"})
    assert len(job(volumes=volumes).volumes) == 3
    assert TrainingJob.create(**PYTORCH, volumes=[{"mount": "/root/.ssh", "secret": "keys"}])


def test_what_is_left_on_no_volume_is_pointed_out():
    assert len(job().notes) == 2
    assert job(volumes=[CLAIM | {"mount": "/workspace"}]).notes == []
    (note,) = job(volumes=[CLAIM | {"mount": "/workspace/model"}]).notes
    assert note.startswith("CHECKPOINT_DIR /workspace/checkpoints is on no volume")
