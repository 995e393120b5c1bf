"""``trireme job`` on this machine, as a person uses it."""

import json
import os
import signal
import time

import jsonschema
import pytest
import yaml

pytestmark = pytest.mark.slow

WHO = """
import os
print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"], os.environ["GREETING"])
assert os.environ["RANK"] == os.environ["NODE_RANK"] == os.environ["GROUP_RANK"]
open(os.path.join(os.environ["MODEL_DIR"], os.environ["RANK"]), "w").close()
"""
FOREVER = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def program(trireme):
    """Writes a program into the directory that commands are run in."""

    def write(text):
        (trireme.home / "train.py").write_text(text)

    return write


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.1)


def test_a_job_is_submitted_listed_shown_and_deleted(trireme, program):
    program(WHO)
    (trireme.home / "job.yaml").write_text(
        "entrypoint: train.py\nworkers: 1\nenv: {WORD: he, GREETING: $(WORD)y}"
    )
    arguments = ["job.yaml", "--local", "--name", "mine", "--workers", "2", "--env", "MORE=1"]
    submitted = trireme.run("job", "submit", *arguments)
    assert submitted.returncode == 0, submitted.stderr
    said = submitted.stdout.splitlines()
    assert {"[master-0] 0 of 3 hey", "[worker-0] 1 of 3 hey", "[worker-1] 2 of 3 hey"} < set(said)
    directory = trireme.home / "jobs" / "mine"
    assert {file.name for file in (directory / "model").iterdir()} == {"0", "1", "2"}

    head, row = trireme.run("job", "list", "--local").stdout.splitlines()
    assert head.split() == ["NAME", "KIND", "STATE", "REPLICAS", "AGE", "REASON"]
    assert row.split()[:4] == ["mine", "PyTorchJob", "succeeded", "3"]
    assert "mine: succeeded" in trireme.run("job", "status", "mine", "--local").stdout
    only = trireme.run("job", "logs", "mine", "--local", "--replica", "worker-1").stdout
    assert only == "[worker-1] 2 of 3 hey\n"
    assert yaml.safe_load((directory / "job.yaml").read_text())["kind"] == "PyTorchJob"

    again = trireme.run("job", "submit", *arguments)
    assert again.returncode == 2
    assert "job 'mine' is in" in again.stderr and "choose another --name" in again.stderr
    assert trireme.run("job", "delete", "mine", "--local").returncode == 0
    assert not directory.exists()


LAUNCHED = """
import os, sys
if "RANK" not in os.environ:
    shown = [name for name in os.environ if "RANK" in name or name.startswith(("PET_", "MASTER_"))]
    print("alone with", sorted(shown), flush=True)
    os.execvp("torchrun", ["torchrun", "--nproc-per-node", "2", sys.argv[0]])
import torch.distributed as dist
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}\\n", end="", flush=True)
dist.barrier()  # else one may leave while the other still connects to it
dist.destroy_process_group()
"""


def test_one_process_may_start_several_with_a_launcher_of_its_own(trireme, program):
    program(LAUNCHED)
    done = trireme.run("job", "submit", "--local", "--entrypoint", "train.py")
    assert done.returncode == 0, done.stderr
    said = {line for line in done.stdout.splitlines() if line.startswith("[master-0]")}
    ranks = {"[master-0] rank 0 of 2", "[master-0] rank 1 of 2"}
    assert said == {"[master-0] alone with []", *ranks}


def test_logs_follow_a_job_that_is_then_cancelled(trireme, program):
    program(FOREVER)
    job = trireme.start("job", "submit", "--local", "--name", "long", "--entrypoint", "train.py")
    log = trireme.home / "jobs" / "long" / "logs" / "master-0.log"
    wait_for(lambda: log.exists() and log.read_text())
    follower = trireme.start("job", "logs", "long", "--local", "-f")
    assert follower.stdout.readline() == "[master-0] started\n"
    assert " running " in trireme.run("job", "list", "--local").stdout
    assert trireme.run("job", "cancel", "long", "--local").returncode == 0
    assert job.wait(30) == 143
    assert follower.wait(30) == 0
    assert "cancelled" in trireme.run("job", "status", "long", "--local").stdout
    twice = trireme.run("job", "cancel", "long", "--local")
    assert (twice.returncode, twice.stderr) == (2, "error: job 'long' has cancelled already\n")
    job.communicate()
    follower.communicate()


def test_a_job_whose_runner_was_killed_is_lost_and_leaves_no_process(trireme, program):
    program(FOREVER)
    job = trireme.start("job", "submit", "--local", "--name", "gone", "--entrypoint", "train.py")
    log = trireme.home / "jobs" / "gone" / "logs" / "master-0.log"
    wait_for(lambda: log.exists() and log.read_text())
    os.kill(job.pid, signal.SIGKILL)
    job.communicate()
    assert trireme.wait_for_no_processes() == []
    assert "lost" in trireme.run("job", "status", "gone", "--local").stdout
    assert trireme.run("job", "delete", "gone", "--local").returncode == 0


def test_a_failed_job_names_the_replica_and_shows_its_end(trireme, program):
    program(f"import os, sys\nif os.environ['RANK'] == '1': sys.exit('no such luck')\n{FOREVER}")
    failed = trireme.run(
        *("job", "submit", "--local", "--name", "bad", "--entrypoint", "train.py"),
        *("--workers", "1"),
    )
    assert failed.returncode == 1
    assert failed.stderr.endswith(
        "[worker-0] no such luck\nerror: replica worker-0 exited with status 1\n"
    )
    assert " failed " in trireme.run("job", "list", "--local").stdout


def test_code_and_data_are_brought_to_a_job(trireme, repository):
    program = "import os\nprint(sorted(os.listdir(os.environ['DATA_DIR'])), os.getcwd())\n"
    code = repository(train=program)
    (trireme.home / "job.yaml").write_text(
        f"entrypoint: train.py\ncode: {{url: {code}}}\ndataset: builtin://digits\n"
    )
    done = trireme.run("job", "submit", "job.yaml", "--local", "--name", "fetched")
    assert done.returncode == 0, done.stderr
    directory = trireme.home / "jobs" / "fetched"
    assert (
        f"[master-0] ['dataset.json', 'test.npz', 'train.npz'] {directory / 'code'}" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "needs an entrypoint, a module or a command"),
        (["--entrypoint", "none.py"], "entrypoint 'none.py' does not exist in"),
        (["--entrypoint", "train.py", "--workers", "-1"], "workers -1: must be"),
        (["--entrypoint", "train.py", "--env", "A"], "--env 'A': must be NAME=VALUE"),
        (
            ["--entrypoint", "train.py", "--secret-env", "A=mine"],
            "secret_env.A: must be a Secret",
        ),
        (["--entrypoint", "train.py", "--framework", "mxnet"], "framework 'mxnet': must be"),
        (["nothing.yaml"], "nothing.yaml: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_leaves_nothing(trireme, program, arguments, said):
    program("")
    refused = trireme.run("job", "submit", "--local", "--name", "bad", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ") and said in refused.stderr
    assert refused.stderr.count("\n") == 1 and refused.stdout == ""
    assert not (trireme.home / "jobs" / "bad").exists()


def test_the_schema_is_what_jobs_are_checked_by(trireme):
    schema = json.loads(trireme.run("job", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"entrypoint": "train.py", "replicas": {"worker": {"count": 2}}})
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"entrypoint": "train.py", "wrokers": 2})


def test_the_documented_job_renders_and_has_no_unknown_field(trireme, request):
    documented = request.config.rootpath / "docs" / "reference" / "job.yaml"
    rendered = trireme.run("job", "render", str(documented))
    assert rendered.returncode == 0, rendered.stderr
    runtime, _ = yaml.safe_load_all(rendered.stdout)
    roles = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert {role["name"]: role["replicas"] for role in roles} == {"master": 1, "worker": 3}
