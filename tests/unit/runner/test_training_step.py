"""The training step around the job: how it is described, what is refused, what is kept."""

import contextlib
import textwrap
from pathlib import Path

import pytest
from jobs_of_runs import job_in

from trireme.errors import InputError, JobFailed
from trireme.files.home import TRACKER
from trireme.frameworks import KINDS
from trireme.images import OF_REPLICAS, PYTORCH
from trireme.manifests import render, to_yaml
from trireme.observers import hangs
from trireme.observers.printing import LastWord
from trireme.runner import training_step
from trireme.runner.local import activity, runner
from trireme.tracking import environment, journal


def prepare(**changes):
    given = {"run": "0f3c", "image": "example.org/trainer:1"}
    return job_in(Path("/workspace"), **given | changes)


def counts(job):
    return {role: replica.count for role, replica in job.roles.items()}


def test_a_run_becomes_a_job_in_its_workspace():
    job = prepare(seed=7, time_limit=60, args=["--epochs", "3"])
    assert (job.name, job.args, job.time_limit) == ("train-0f3c", ["--epochs", "3"], 60)
    assert job.env == {"SEED": "7", "MLFLOW_RUN_ID": ""}
    assert (job.code_dir, job.data_dir) == ("/workspace/code", "/workspace/data")
    assert job.checkpoint_dir == "/workspace/checkpoints"
    assert Path(job.model_dir).parent == Path("/workspace")
    assert job.model_dir != "/workspace/model"  # which only a whole model is called
    assert counts(job) == {"master": 1, "worker": 1}
    assert prepare().time_limit is None


def test_a_pipeline_s_parameter_in_job_may_come_as_text_as_kubeflow_gives_it():
    more = {"retries": "2", "suspend": "true", "elastic": {"min": "1", "max": 3.0}}
    job = prepare(job=more | {"env": {"WIDTH": "8"}})
    assert (job.retries, job.suspend, job.env["WIDTH"]) == (2, True, "8")
    assert (job.elastic.min, job.elastic.max) == (1, 3)
    with pytest.raises(InputError, match=r"retries '2\.5': must be a valid integer"):
        prepare(job={"retries": "2.5"})


def test_what_a_run_pulls_for_its_images_is_told_the_job():
    pulled = OF_REPLICAS | {PYTORCH: "registry.example.org/torch"}
    job = prepare(image="", images=pulled)
    assert job.images == {PYTORCH: "registry.example.org/torch"}
    assert {replica.image for replica in job.roles.values()} == {"registry.example.org/torch"}
    assert prepare(images=OF_REPLICAS).images == {}


def test_what_libraries_add_in_the_end_is_not_the_program_s_last_word():
    last = LastWord("worker-0")
    for line in (
        "I am at step 4000",
        "metrics that MLflow has not taken are in /w/checkpoints/metrics-unsent.jsonl",
        "🏃 View run train at: http://mlflow:5000/#/experiments/1/runs/7",
        "🧪 View experiment at: http://mlflow:5000/#/experiments/1",
        "2026-11-22 20:14:09.120371: E external/xla/client.cc:880] The tasks have crashed.",
        "E1122 22:17:18.084195      15 client.cc:449] cancelled",
        "",
        89 * "=",
    ):
        last.lines("worker-0", line)
    assert last.line == "I am at step 4000"
    last.lines("worker-1", "I am another")
    last.lines("worker-0", "\x1b[32mI am at step 5000\x1b[0m")
    assert last.line == "I am at step 5000"


@pytest.mark.parametrize(
    ("changes", "leader", "others"),
    [
        ({}, "master-0", {"worker-0"}),
        ({"framework": "mpi", "workers": 2}, "launcher-0", {"worker-0", "worker-1"}),
        ({"job": {"runtime": "torch-distributed"}}, "node-0", {"node-1"}),
        (
            {"framework": "mpi", "workers": 2, "job": {"runtime": "deepspeed-distributed"}},
            "launcher-0",
            {"node-0", "node-1"},
        ),
    ],
)
def test_whom_a_run_listens_to_and_whose_logs_it_keeps(
    changes, leader, others, monkeypatch, tmp_path
):
    job, kept = prepare(**changes), []
    assert job.leader == leader
    monkeypatch.setattr(
        journal, "log_artifact", lambda path, folder="": kept.append((path, folder))
    )
    training_step._record(job, tmp_path)
    assert {path.stem for path, folder in kept if folder == "logs"} == {leader} | others


@pytest.mark.parametrize("run", ["7", "0b9e1b0c-7c0d-4e0a-9f5e-3d6f2a1b4c5d", 90 * "x"])
def test_a_job_s_name_is_made_from_the_run_s_id_and_leaves_room_for_those_of_its_pods(run):
    whole, trial = prepare(run=run).name, prepare(run=run, trial=999).name
    assert trial == f"{whole}-999"  # by which the last step finds it
    assert whole not in (prepare(run=f"{run[:-1]}z").name, "train")
    for kind in KINDS.values():
        assert len(trial + kind.longest_end) <= 63


def test_a_run_that_has_no_id_yet_can_be_checked():
    assert prepare(run="").name == "train"


@pytest.mark.parametrize(
    ("changes", "roles"),
    [
        ({"workers": 2}, {"worker": 2}),
        ({"workers": 2, "parameter_servers": 3}, {"chief": 1, "ps": 3, "worker": 2}),
        (
            {"parameter_servers": 1, "job": {"replicas": {"worker": {"count": 4}}}},
            {"chief": 1, "ps": 1, "worker": 4},
        ),
        (
            {"parameter_servers": 1, "job": {"replicas": {"evaluator": {}}}},
            {"chief": 1, "ps": 1, "worker": 1, "evaluator": 1},
        ),
        (
            {
                "workers": 3,
                "parameter_servers": 2,
                "job": {"replicas": {"worker": {"memory": "8Gi"}, "ps": {"cpu": "1"}}},
            },
            {"chief": 1, "ps": 2, "worker": 3},
        ),
    ],
)
def test_tensorflow_trains_by_allreduce_or_with_parameter_servers(changes, roles):
    assert counts(prepare(framework="tensorflow", **changes)) == roles


OURS = "trainers/pytorch_classifier.py"
OF_TENSORFLOW = {"framework": "tensorflow", "entrypoint": ""}


@pytest.mark.parametrize(
    ("changes", "roles"),
    [
        ({}, {"master": 1}),
        ({"entrypoint": OURS}, {"master": 1, "worker": 1}),
        ({"entrypoint": OURS, "job": {"command": ["./train"]}}, {"master": 1}),
        ({"job": {"elastic": {"min": 2, "max": 3}}}, {"worker": 3}),
        ({"entrypoint": OURS, "job": {"elastic": {"min": 2, "max": 3}}}, {"worker": 3}),
        ({"framework": "tensorflow"}, {"worker": 1}),
        ({"framework": "tensorflow", "parameter_servers": 1}, {"chief": 1, "ps": 1, "worker": 1}),
        (OF_TENSORFLOW, {"worker": 2}),
    ],
)
def test_a_program_is_one_process_unless_it_is_ours_or_somebody_says_more(changes, roles):
    assert counts(prepare(workers=-1, **changes)) == roles


@pytest.mark.parametrize("field", [{"command": ["./train", "--once"]}, {"module": "flowers.train"}])
def test_a_command_or_a_module_takes_the_place_of_the_reference_program(field):
    job = prepare(entrypoint=OURS, job=field)
    assert job.entrypoint is None
    assert job.model_dump(include=set(field)) == field
    params = training_step.params_of(job)
    assert {name: params.get(name) for name in ("entrypoint", "command", "module")} == {
        "entrypoint": "",
        "command": job.command,
        "module": job.module,
    }
    with pytest.raises(InputError, match="entrypoint"):
        prepare(entrypoint="train.py", job=field)


def test_mlflow_has_each_argument_and_the_text_of_all():
    params = training_step.params_of(
        prepare(args=["--lr", 0.01, "model.depth=3", "--token", "abc"])
    )
    assert params["args"] == ["--lr", "0.01", "model.depth=3", "--token", "abc"]
    assert {name: value for name, value in params.items() if name.startswith("args.")} == {
        "args.lr": "0.01",
        "args.model.depth": "3",
        "args.token": "(withheld)",
    }


def test_numbers_are_what_was_written_though_kfp_makes_them_floats():
    more = {"gpu": 1.0, "elastic": {"min": 1.0, "max": 2.0}, "run_as_user": 1000.0}
    job = prepare(workers=-1, args=["--epochs", 3.0, "--rate", 0.001], job=more)
    assert (job.gpu, job.elastic.max, job.run_as_user) == (1, 2, 1000)
    assert job.args == ["--epochs", "3", "--rate", "0.001"]


def test_variables_of_the_run_are_not_expanded_and_those_of_a_person_are():
    tracking = {"MLFLOW_TRACKING_URI": "http://a$(B)"}
    job = prepare(env=tracking, job={"env": {"OUT": "$(MODEL_DIR)/x"}})
    assert job.env["MLFLOW_TRACKING_URI"] == "http://a$$(B)"
    assert job.env["OUT"] == "$(MODEL_DIR)/x"


def test_further_fields_win_and_add_to_mappings():
    job = prepare(seed=7, job={"env": {"A": "1"}, "gpu": 2, "workers": 3, "retries": 1})
    assert job.env == {"SEED": "7", "MLFLOW_RUN_ID": "", "A": "1"}
    assert (job.gpu, job.workers, job.retries) == (2, 3, 1)


def test_an_elastic_job_has_no_master():
    assert counts(prepare(job={"elastic": {"min": 1, "max": 4}})) == {"worker": 1}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": -1}, "seed -1: must be between 0 and 4294967295"),
        ({"seed": 2**32}, "seed 4294967296: must be between 0 and 4294967295"),
        ({"time_limit": -1}, "time_limit -1: must be seconds, or 0 for no limit"),
        ({"parameter_servers": -1}, "parameter_servers -1: must not be negative"),
        ({"workers": -2}, "workers -2: must be greater than or equal to 0"),
        ({"args": [None]}, "args.0 None: must be a valid string"),
        (
            {"parameter_servers": 1},
            "replicas.chief: a pytorch job has the roles master, worker",
        ),
        ({"job": {"gpus": 1}}, "gpus: there is no such field; did you mean gpu?"),
        ({"job": {"replicas": 3}}, "replicas 3: must be an object"),
        ({"job": {"replicas": None}}, "replicas None: must be an object"),
        ({"job": {"command": ["a"]}}, "give only one of entrypoint and command"),
        (
            {"job": {"workers": 2, "replicas": {"worker": {"count": 1}}}},
            "workers 2 and replicas.worker.count 1: give one of them",
        ),
        *(
            ({"job": {name: "x"}}, f"job.{name}: the pipeline sets this itself")
            for name in ("name", "model_dir", "dataset")
        ),
    ],
)
def test_a_run_that_could_not_work_is_refused(changes, said):
    with pytest.raises(InputError) as caught:
        prepare(**changes)
    assert str(caught.value) == said


@pytest.mark.parametrize("announced", [False, True])
def test_a_tracking_password_stays_out_of_the_manifest(untracked, monkeypatch, tmp_path, announced):
    given = {"MLFLOW_TRACKING_URI": "https://me:hunter2@example.org", "MLFLOW_RUN_ID": "abc"}
    if announced:
        monkeypatch.setenv(TRACKER, str(tmp_path / "mlflow.json"))
        environment.announce(tmp_path / "mlflow.json", given)
    else:
        for name, value in given.items():
            monkeypatch.setenv(name, value)
    job = prepare(env=environment.variables())
    assert "hunter2" not in to_yaml(render(job))
    assert job.env["MLFLOW_RUN_ID"] == "abc"


def test_the_way_to_the_tracking_server_is_in_the_manifest(untracked, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://example.org")
    job = prepare(env=environment.variables())
    assert job.env["MLFLOW_TRACKING_URI"] == "https://example.org"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(runner, "SETTLE", 0.5)
    (tmp_path / "code").mkdir()
    return tmp_path


@pytest.fixture
def train(workspace):
    """Trains with a program, as one process."""

    def train(program: str | None) -> training_step.Trained:
        if program is not None:
            (workspace / "code" / "train.py").write_text(textwrap.dedent(program))
        return training_step.train(job_in(workspace, workers=0, seed=7), workspace)

    return train


def test_the_model_appears_when_the_program_has_succeeded(train, workspace):
    trained = train(
        """
        import os, pathlib
        model = pathlib.Path(os.environ["MODEL_DIR"])
        assert not model.with_name("model").exists()
        (model / "seed").write_text(os.environ["SEED"])
        pathlib.Path(os.environ["CHECKPOINT_DIR"], "last").touch()
        """
    )
    assert Path(trained.model, "seed").read_text() == "7"
    assert Path(trained.checkpoints, "last").exists()
    assert not (workspace / "model.partial").exists()


def test_a_failed_program_leaves_no_model_and_keeps_that_of_before(train, workspace):
    train("import os; open(os.environ['MODEL_DIR'] + '/good', 'w').close()")
    with pytest.raises(JobFailed):
        train("import os, sys; open(os.environ['MODEL_DIR'] + '/bad', 'w').close(); sys.exit(3)")
    assert [file.name for file in (workspace / "model").iterdir()] == ["good"]


def test_the_logs_of_all_attempts_are_kept(train, workspace):
    kept: list[str] = []
    for attempt in ("first", "second", "third"):
        with journal.opened(workspace, "train"), contextlib.suppress(JobFailed):
            train(f"import sys; print('{attempt}'); sys.exit({attempt != 'third'})")
        files = [record for record in journal.read(workspace, "train") if "artifact" in record]
        kept = [record["artifact"] for record in files if record["folder"] == "logs"]
    said = {Path(file).name: Path(file).read_text() for file in kept}
    assert said == {
        "master-0.1.log": "first\n",
        "master-0.2.log": "second\n",
        "master-0.log": "third\n",
    }


def test_the_logs_of_all_attempts_of_a_step_of_somebody_s_own_are_kept(tmp_path):
    folder = journal.journal_path(tmp_path, "count").parent
    folder.mkdir(parents=True)
    for name in ("output.1.log", "output.2.log", "output.log"):
        (folder / name).touch()
    journal.write_for(tmp_path, "count", "FINISHED", None, folder / "output.log", 1.0, 2.0)
    kept = [record.get("artifact") for record in journal.read(tmp_path, "count")]
    assert kept[:3] == [str(folder / f"output{n}.log") for n in (".1", ".2", "")]


def test_a_program_that_removes_its_model_has_failed(train):
    with pytest.raises(JobFailed, match="removed its MODEL_DIR"):
        train("import os; os.rmdir(os.environ['MODEL_DIR'])")


def test_links_inside_the_model_still_lead_somewhere(train):
    trained = train(
        """
        import os, pathlib
        model = pathlib.Path(os.environ["MODEL_DIR"])
        (model / "epoch3.pt").write_text("weights")
        (model / "latest.pt").symlink_to(model / "epoch3.pt")
        (model / "relative.pt").symlink_to("epoch3.pt")
        (model / "nowhere.pt").symlink_to(model / "epoch4.pt")
        """
    )
    kept = {file.name: file.read_text() for file in Path(trained.model).iterdir()}
    assert kept == dict.fromkeys(("epoch3.pt", "latest.pt", "relative.pt"), "weights")


def test_in_a_pod_training_stays_where_somebody_runs_the_pipeline(train, workspace, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv(TRACKER, str(workspace / "mlflow.json"))
    assert Path(train("").model).exists()


def test_the_manifest_and_the_logs_are_kept_with_the_step(train, workspace):
    train("print('hello')")
    steps = workspace / "steps" / "train"
    assert "kind: PyTorchJob" in (steps / "job.yaml").read_text()
    assert (steps / "master-0.log").read_text() == "hello\n"


def test_what_a_program_prints_of_metrics_is_recorded(train, workspace):
    program = """
    for epoch in (1, 2, 3):
        print(f"Epoch [{epoch}/3], Loss: {1 / epoch}", flush=True)
    print("Test accuracy: 97.5%")
    """
    with journal.opened(workspace, "train"):
        train(program)
    assert journal.curves(workspace, "train") == {
        "loss": ("epoch", {1: 1.0, 2: 0.5, 3: 1 / 3}),
        "test_accuracy": ("epoch", {3: 0.975}),
    }
    totals = [record["total"] for record in journal.read(workspace, "train") if "total" in record]
    assert {"train.loss": 1 / 3, "train.test_accuracy": 0.975} in totals


def test_a_training_that_hangs_is_tagged(train, workspace, monkeypatch):
    monkeypatch.setattr(hangs, "FIRST", 1.0)
    monkeypatch.setattr(activity, "MEASURED", 0.5)
    monkeypatch.setattr(hangs, "CONFIRMED", 1.0)
    with journal.opened(workspace, "train"):
        train(
            """
            import os, pathlib, time
            log = pathlib.Path(os.environ["MODEL_DIR"]).parent / "steps" / "train" / "master-0.log"
            while "it hangs" not in log.read_text(): time.sleep(0.5)
            """
        )
    tags = [each["tags"] for each in journal.read(workspace, "train") if "tags" in each]
    assert [each["hang"] for each in tags if "hang" in each] == [hangs.sentence(1)]


def test_a_program_that_is_not_there_is_refused(train, workspace):
    with pytest.raises(InputError, match=r"entrypoint 'train\.py' does not exist"):
        train(None)
    assert not (workspace / "model.partial").exists()
