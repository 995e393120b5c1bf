"""What goes wrong is said in one sentence, with the right exit status and the right record."""

import os
import subprocess
import sys
from pathlib import Path

import programs
import pytest
from git_servers import FCGIWRAP, NGINX, http_server

pytestmark = pytest.mark.slow


def test_a_script_that_raises_shows_the_failing_rank(trireme, repository):
    code = repository(train=programs.RANK_ONE_RAISES)
    given = ("-p", f"code_url={code}", "-p", "entrypoint=train.py", "-p", "workers=1")
    result = trireme.run("run", "pytorch-training", *given)
    assert result.returncode == 1
    assert "ValueError: the learning rate went to seed" in result.stderr
    assert "[master-0]" not in result.stderr  # it was only dragged down
    # Mostly "exited with status 1"; now and then PyTorch aborts while it is torn down.
    assert result.stderr.splitlines()[-1].startswith("error: replica worker-0 ")
    (parent,) = trireme.parents()
    nested = trireme.nested(parent)
    assert parent.info.status == "FAILED"
    assert nested["train"].info.status == "FAILED"
    assert nested["checkout"].info.status == "FINISHED"
    assert "evaluate" not in nested
    name = trireme.run_directory().name
    ended = trireme.run("status", name).stdout.split("RESULT", 1)[1]
    assert "[worker-0] [rank1]: ValueError: the learning rate went to seed" in ended
    last = [line.split(maxsplit=1) for line in ended.splitlines()[-2:]]
    helps = [["Logs", f"trireme logs {name} --step train"], ["Resume", f"trireme resume {name}"]]
    assert last == helps
    assert not (trireme.run_directory() / "workspace" / "model").exists()


def must_refuse(trireme, sentence, *parameters):
    words = [word for parameter in parameters for word in ("-p", parameter)]
    result = trireme.call("run", "pytorch-training", *words)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"error: {sentence}")


@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [
        (
            "code_url=/proc",
            "code_url '/proc' is not a git repository and has more than 10,000 files",
        ),
        ("code_secret=nowhere", "code_secret 'nowhere' is given without code_url"),
        ("code_revision=main", "code_revision 'main' is given without code_url"),
        ("entrypoint=no/such.py", "entrypoint 'no/such.py' is not one of Trireme's"),
        ("dataset_uri=/no/such", "dataset_uri '/no/such': there is no such file or directory"),
        ('args=["--epochs", null]', "args.1 None: must be a valid string"),
    ],
)
def test_what_this_machine_can_tell_is_told_before_anything_is_there(trireme, parameter, sentence):
    must_refuse(trireme, sentence, parameter)
    assert not (trireme.home / "runs").exists()


@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [
        ("entrypoint=no/such.py", "entrypoint 'no/such.py' does not exist in the repository"),
        (
            'evaluation={"entrypoint": "no/such.py"}',
            "evaluation.entrypoint 'no/such.py' does not exist in the repository",
        ),
    ],
)
def test_a_program_that_the_repository_lacks_is_told_before_too(
    trireme, repository, parameter, sentence
):
    code = f"code_url={repository(train=programs.FOREVER)}"
    must_refuse(trireme, sentence, code, "entrypoint=train.py", parameter)
    assert not (trireme.home / "runs").exists()


def test_without_an_entrypoint_the_repository_is_not_asked_for_ours_alone(trireme, repository):
    code = repository(train=programs.FOREVER)
    result = trireme.call("run", "pytorch-training", "-p", f"code_url={code}")
    assert result.returncode == 2
    assert result.stderr.endswith(
        "the repository; give -p entrypoint=FILE.py, your program in it\n"
    )


def test_a_revision_that_is_not_in_a_directory_is_told_before(trireme, repository):
    code = f"code_url={repository(train=programs.FOREVER)}"
    for revision in ("no-such-branch", "1234567"):
        sentence = f"code_revision '{revision}' does not exist in"
        must_refuse(trireme, sentence, code, f"code_revision={revision}")
    assert not (trireme.home / "runs").exists()


@pytest.mark.skipif(not (NGINX and FCGIWRAP), reason="needs nginx-light and fcgiwrap")
def test_what_only_a_step_can_find_out_is_bad_input_too(trireme, repository, tmp_path):
    sentence = "code_revision 'no-such-branch' does not exist in"
    code = repository(train=programs.FOREVER)
    with http_server(tmp_path / "git") as git:
        served = tmp_path / "git" / "public" / "code"
        subprocess.run(["git", "clone", "-q", "--bare", code, served], check=True)
        given = f"code_url={git.url}/public/code"
        must_refuse(trireme, sentence, given, "code_revision=no-such-branch")
    (parent,) = trireme.parents()
    assert parent.info.status == "FAILED"
    assert sentence in parent.data.tags["error"]
    assert not (trireme.run_directory() / "workspace" / "steps" / "train" / "job.yaml").exists()


def test_a_dataset_without_files_is_bad_input(trireme, tmp_path):
    (tmp_path / "empty").mkdir()
    result = trireme.call("run", "pytorch-training", "-p", f"dataset_uri={tmp_path / 'empty'}")
    assert result.returncode == 2
    assert "holds no files" in result.stderr


def test_a_time_limit_ends_training(trireme, repository):
    code = repository(train=programs.FOREVER)
    result = trireme.call(
        "run",
        "pytorch-training",
        *("-p", f"code_url={code}"),
        *("-p", "entrypoint=train.py"),
        *("-p", "time_limit=3"),
    )
    assert result.returncode == 1
    assert "time limit" in result.stderr
    assert trireme.parents()[0].info.status == "FAILED"


def test_a_tracking_server_that_is_not_there_is_refused_at_once(trireme):
    result = trireme.call("run", "pytorch-training", MLFLOW_TRACKING_URI="http://127.0.0.1:1")
    assert result.returncode == 2
    assert "MLFLOW_TRACKING_URI http://127.0.0.1:1 does not answer" in result.stderr
    assert result.stdout == ""


def test_a_run_that_mlflow_does_not_know_is_refused_before_training(trireme):
    result = trireme.run("run", "pytorch-training", MLFLOW_RUN_ID="0" * 32)
    assert result.returncode == 2
    assert "not found" in result.stderr
    assert not (trireme.run_directory() / "workspace" / "steps" / "train" / "job.yaml").exists()


def test_output_that_cannot_be_written_is_a_failure():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "trireme", "--help"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    error = "error: the output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, error)


def test_a_run_goes_on_when_its_reader_goes_away(trireme):
    process = trireme.start("run", "pytorch-training", "--verbose", "-p", "workers=0")
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=120) == 0
    assert trireme.parents()[0].info.status == "FINISHED"


def test_a_data_loader_with_workers_works_in_a_deep_home(tmp_path, mlflow_store, trireme_type):
    # Its workers talk through sockets in TMPDIR, whose paths must be short.
    home = tmp_path / ("deep" * 20)
    home.mkdir()
    (home / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    trireme = trireme_type(home)
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(programs.DATA_LOADER)
    git = ["git", "-C", str(code), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run([*git, *command], check=True)
    result = trireme.call(
        "run",
        "pytorch-training",
        *("-p", f"code_url={code}"),
        *("-p", "entrypoint=train.py"),
        *("-p", "workers=0"),
        *("-p", "time_limit=60"),
    )
    assert result.returncode == 0, result.stderr
    assert "epoch 1/1 10 batches" in result.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said(tmp_path, trireme_type):
    home = tmp_path / "small"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", home], check=True)
    try:
        trireme = trireme_type(home)
        result = trireme.run("run", "pytorch-training", "-p", "workers=0")
        assert result.returncode != 0
        assert "Traceback" not in result.stderr
        assert result.stderr.splitlines()[-1].startswith("error: ")
        assert trireme.wait_for_no_processes() == []
    finally:
        subprocess.run(["umount", "--lazy", home], check=True)


def test_torchruns_own_report_does_not_hide_the_cause(trireme, repository):
    code = repository(train=programs.RANK_ONE_RAISES)
    result = trireme.call(
        "run",
        "pytorch-training",
        *("-p", f"code_url={code}"),
        *("-p", "entrypoint=train.py"),
        *("-p", "workers=0"),
        *("-p", "processes_per_worker=2"),
    )
    assert result.returncode == 1
    assert "ValueError: the learning rate went to seed" in result.stderr
    assert "torch.distributed.elastic" not in result.stderr
