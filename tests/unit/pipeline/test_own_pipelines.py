"""Pipelines that are not Trireme's own: in files, of installed packages, compiled by kfp."""

import json
import re
import sys
from importlib.metadata import EntryPoint

import pytest
import yaml
from mlflow import MlflowClient

from trireme import plugins
from trireme.errors import InputError
from trireme.images import BASE, PYTORCH, for_gpus
from trireme.pipeline import catalog
from trireme.targets.local import containers

CHURN = '''
"""Counts customers."""

from kfp import dsl

import features

SIZE = dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size="1Gi"))


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def count(rows: int, workspace: str) -> int:
    import pathlib

    print("counting", rows)
    if rows > 100:
        raise ValueError("too many rows")
    pathlib.Path(workspace, "rows").write_text(str(rows))
    return rows


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def tell(rows: int):
    print("there are", rows)


@dsl.pipeline(name="churn", pipeline_config=SIZE)
def churn(customers: str, rows: int = features.LIMIT):
    """Counts who leaves.

    Args:
        customers: Where they are.
        rows: How many there are.
    """
    counted = count(rows=rows, workspace=dsl.WORKSPACE_PATH_PLACEHOLDER)
    tell(rows=counted.output)
'''

ANOTHER = """

@dsl.pipeline(name="nightly", pipeline_config=SIZE)
def nightly(rows: int = 1):
    tell(rows=rows)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a pipeline, and packages in it that are called as Trireme's once were."""
    for name in ("components", "pipelines"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not to be imported')")
    (tmp_path / "features.py").write_text("LIMIT = 3")
    (tmp_path / "churn.py").write_text(CHURN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_a_pipeline(folder):
    before = sys.path[:]
    pipeline = catalog.load("./churn.py")
    assert (pipeline.name, pipeline.graph.description) == ("churn", "Counts who leaves.")
    assert pipeline.parameters["rows"].default == 3
    assert pipeline.parameters["customers"].is_needed
    assert pipeline.complete({"customers": "all"}) == {"customers": "all", "rows": 3}
    assert pipeline.source == folder
    assert sys.path == before


def test_its_folder_may_have_a_colon(folder):
    (folder / "a:b").mkdir()
    (folder / "churn.py").rename(folder / "a:b/churn.py")
    assert catalog.load("a:b/churn.py").name == "churn"
    assert catalog.load("a:b/churn.py:churn").name == "churn"


def test_two_of_one_name_are_not_compiled_over_each_other(folder, trireme):
    (folder / "other.py").write_text(CHURN)
    status, _, errors = trireme("compile", "churn.py", "other.py")
    assert status == 2
    assert errors == "error: churn.py and other.py: both pipelines are called churn\n"
    assert not (folder / "compiled").exists()


def test_one_of_several_is_named(folder):
    file = folder / "churn.py"
    file.write_text(CHURN + ANOTHER)
    assert catalog.load("churn.py:nightly").name == "nightly"
    with pytest.raises(InputError, match=r"say which: churn\.py:churn or churn\.py:nightly$"):
        catalog.load("churn.py")
    with pytest.raises(
        InputError, match=r"no pipeline 'weekly' with @dsl\.pipeline; there are churn"
    ):
        catalog.load("churn.py:weekly")


def test_a_file_of_many_is_run_once(folder, trireme):
    (folder / "churn.py").write_text(CHURN + ANOTHER + "\nprint('run')")
    status, output, _ = trireme("compile", "churn.py:churn", "./churn.py:nightly")
    assert status == 0
    assert output.splitlines() == ["run", "compiled/churn.yaml", "compiled/nightly.yaml"]


def test_a_pipeline_that_a_file_imports_is_not_its_own(folder):
    (folder / "other.py").write_text("from churn import churn as pipeline\n")
    with pytest.raises(InputError, match=r"other\.py: it has no function with @dsl\.pipeline"):
        catalog.load("other.py")
    del sys.modules["churn"], sys.modules["features"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x = 1 +\n", r"^broken\.py, line 1: invalid syntax$"),
        (
            "from kfp.dsl import pipeline\n\nnothing\n",
            r"broken\.py, line 3: NameError: name 'nothing' is not",
        ),
        (
            "from nowhere import pipeline\n",
            r"broken\.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("pipeline = exit(3)\n", r"broken\.py, line 1: SystemExit: 3$"),
        (
            CHURN.replace("pipeline_config=SIZE", ""),
            r"broken\.py, lines 27 to 36: ValueError: Workspace",
        ),
    ],
)
def test_a_broken_file_is_one_sentence_with_the_line(folder, content, said):
    (folder / "broken.py").write_text(content)
    before = sys.path[:]
    with pytest.raises(InputError, match=said):
        catalog.load("broken.py")
    assert sys.path == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # kfp says nothing before it has the whole function.
        (
            "    tell(rows=counted.output)",
            "    with dsl.If(counted.output == 1):\n        with dsl.ExitHandler(tell(rows=1)):\n"
            "            tell(rows=2)",
            r"^\./broken\.py, lines 27 to 38: ValueError: ExitHandler can only",
        ),
        ("    tell(rows=", "    1 / 0\n    tell(rows=", r"^\./broken\.py, line 36: ZeroDivision"),
        ("    tell(rows=", "    len(3)\n    tell(rows=", r"^\./broken\.py, line 36: TypeError"),
        (
            "    tell(rows=counted.output)",
            "    with dsl.ParallelFor(3):\n        tell(rows=1)",
            r"^\./broken\.py, line 36: TypeError",
        ),
    ],
)
def test_the_line_is_the_innermost_of_the_file(folder, old, new, said):
    assert old in CHURN
    (folder / "broken.py").write_text(CHURN.replace(old, new))
    with pytest.raises(InputError, match=said):
        catalog.load("./broken.py")


def test_what_is_wrong_in_a_file_that_is_imported_is_said_to_be_there(folder):
    (folder / "helper.py").write_text("def of(rows):\n    return 1 / rows\n\n\nLEFT = of(0)\n")
    (folder / "broken.py").write_text("from helper import LEFT as pipeline\n")
    where = re.escape(f"./broken.py: {folder.resolve() / 'helper.py'}, line 2: ZeroDivisionError")
    with pytest.raises(InputError, match=f"^{where}"):
        catalog.load("./broken.py")


def test_a_training_program_is_not_run_to_see_what_it_is(folder):
    (folder / "train.py").write_text("open('trained', 'w')  # no pipeline\n")
    with pytest.raises(InputError, match=r"train\.py: it has no .*: trireme run train\.py$"):
        catalog.load("train.py")
    assert not (folder / "trained").exists()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("none.py", "none.py: there is no file none.py"),
        ("none.yaml", "none.yaml: cannot be read: No such file"),
        ("list.yaml", "list.yaml is not a pipeline that kfp compiled"),
        ("churn", "there is no pipeline 'churn'; there are pytorch-training"),
        ("retrainin", "there is no pipeline 'retrainin'; did you mean retraining?"),
        ("./train.ipynb", "there is no pipeline './train.ipynb'; there are pytorch-training"),
    ],
)
def test_what_is_none_is_one_sentence(folder, trireme, untracked, reference, said):
    (folder / "list.yaml").write_text("- 1\n")
    status, output, errors = trireme("run", reference)
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert said in errors
    assert not untracked.exists()


def test_a_parameter_without_a_default_is_needed(folder, trireme):
    status, _, errors = trireme("run", "churn.py")
    assert (status, errors) == (2, "error: churn needs -p customers=\n")


def test_a_package_offers_pipelines(folder, monkeypatch, trireme):
    monkeypatch.syspath_prepend(folder)
    entries = [
        EntryPoint("churn", "churn:churn", plugins.PIPELINES),
        EntryPoint("module", "churn", plugins.PIPELINES),
        EntryPoint("gone", "churn:nothing", plugins.PIPELINES),
        EntryPoint("text", "features:LIMIT", plugins.PIPELINES),
    ]
    monkeypatch.setattr(plugins, "_all", lambda: entries)
    assert catalog.load("churn").name == catalog.load("module").name == "churn"
    for name, said in (("gone", "no attribute 'nothing'"), ("text", "not a function with @dsl")):
        with pytest.raises(InputError, match=said):
            catalog.load(name)
    assert "churn  From churn" in trireme("pipelines")[1].splitlines()
    for name in ("churn", "features"):
        sys.modules.pop(name, None)


UNPINNED = "note: without a digest, so that what is run can change: {}; --images pins them\n"


@pytest.mark.parametrize("target", ["kfp", "argo"])
def test_it_is_compiled(folder, trireme, target):
    status, output, errors = trireme("compile", "churn.py", "--target", target, "-o", "made")
    assert (status, output) == (0, "made/churn.yaml\n")
    assert errors == UNPINNED.format("example.org/own:1")
    assert "example.org/own:1" in (folder / "made/churn.yaml").read_text()


@pytest.mark.parametrize("target", ["kfp", "argo"])
def test_it_is_not_compiled_through_a_link_to_elsewhere(folder, trireme, tmp_path, target):
    (folder / "made").mkdir()
    (folder / "made" / "churn.yaml").symlink_to(tmp_path / "own")
    status, _, errors = trireme("compile", "churn.py", "--target", target, "-o", "made")
    assert status == 2 and "made/churn.yaml: is a link out of its folder" in errors
    assert not (tmp_path / "own").exists()


def test_what_kfp_has_compiled_is_a_pipeline(folder, trireme):
    assert trireme("compile", "churn.py", "-o", ".")[0] == 0
    compiled, written = catalog.load("churn.yaml"), catalog.load("churn.py")
    assert compiled.parameters == written.parameters
    assert trireme("compile", "churn.yaml", "-o", "again")[0] == 0
    there, again = ((folder / name).read_text() for name in ("churn.yaml", "again/churn.yaml"))
    assert [*yaml.safe_load_all(there)] == [*yaml.safe_load_all(again)]


def test_its_parameters_are_told(folder, trireme):
    status, output, _ = trireme("run", "churn.py", "--help")
    assert status == 0
    assert "  rows  (whole number, default 3)\n      How many there are.\n" in output
    assert "  customers  (text, needed)\n" in output


@pytest.mark.parametrize("target", ["kfp", "argo"])
def test_it_is_planned(folder, trireme, target):
    words = ("plan", "churn.py", "--target", target, "--no-check", "-p", "customers=all")
    status, output, errors = trireme(*words)
    assert (status, errors) == (0, UNPINNED.format("example.org/own:1"))
    assert "count  example.org/own:1\n" in output
    assert "a ReadWriteMany claim of 1Gi for each run" in output


IMPORTED = """
from kfp import dsl


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def look(table: dsl.Input[dsl.Dataset]):
    print(table.uri)


@dsl.container_component
def hello():
    return dsl.ContainerSpec(image="example.org/hello:1", command=["echo"], args=["hello"])


@dsl.pipeline(name="looking")
def looking():
    look(table=dsl.importer(artifact_uri="file:///etc/hosts", artifact_class=dsl.Dataset).output)
    {rest}
"""


def test_what_is_imported_has_no_image(folder, trireme):
    (folder / "looking.py").write_text(IMPORTED.format(rest="pass"))
    status, output, errors = trireme("plan", "looking.py")
    assert (status, errors) == (0, "")
    assert "look  example.org/own:1\n" in output and "importer" not in output


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_step_that_only_its_image_can_run_is_refused_without_an_engine(
    folder, trireme, untracked, command, monkeypatch
):
    monkeypatch.setattr(containers, "engine", lambda: "")
    (folder / "looking.py").write_text(IMPORTED.format(rest="hello()"))
    status, _, errors = trireme(command, "looking.py")
    assert (status, errors.count("\n")) == (2, 1)
    assert "step hello runs a command of the image example.org/hello:1" in errors
    assert "needs podman or docker" in errors
    assert not (untracked / "runs").exists()


IN_A_POD = """
from kfp import dsl, kubernetes


@dsl.component
def look(volume: str):
    import os

    print("has", os.environ["TOKEN"], os.listdir(volume))


@dsl.pipeline(name="pods")
def pods():
    looked = look(volume="{volume}")
    kubernetes.use_secret_as_env(looked, "tokens", {{"token": "TOKEN"}})
    kubernetes.use_config_map_as_env(looked, "names", {{"name": "WHO"}}, optional=True)
    kubernetes.mount_pvc(looked, "data", "{volume}")
"""


def test_what_only_a_cluster_gives_a_step_is_asked_for(folder, trireme, untracked, monkeypatch):
    volume = folder / "volume"
    (folder / "pods.py").write_text(IN_A_POD.format(volume=volume))
    status, _, errors = trireme("run", "pods.py")
    assert (status, errors.count("\n")) == (2, 1)
    assert "step look: its variable TOKEN comes from the cluster; set it" in errors
    monkeypatch.setenv("TOKEN", "abc")
    status, _, errors = trireme("run", "pods.py")
    assert (status, errors.count("\n")) == (2, 1)
    assert f"step look: {volume} is a volume of its pod, and no folder of this machine" in errors
    assert not (untracked / "runs").exists()
    volume.mkdir()
    assert trireme("plan", "pods.py")[0] == 0


TRAINED = """
from kfp import dsl
from trireme import WORKSPACE, checkout, dataset, finishing, train


@dsl.pipeline(name="trained", pipeline_config=WORKSPACE)
def trained(workers: int = 2):
    with finishing("trained"):
        code, data = checkout("https://example.org/you/models.git"), dataset()
        train(code, data, entrypoint="train.py", workers=workers, job={{"gpu": 4}})
        {rest}
"""


def test_what_its_training_makes_is_planned_as_far_as_it_is_known(folder, trireme):
    (folder / "trained.py").write_text(TRAINED.format(rest=""))
    words = ("plan", "trained.py", "--target", "argo", "--no-check", "-p", "workers=3")
    status, output, errors = trireme(*words)
    assert status == 0
    assert errors == UNPINNED.format(f"{BASE}, {for_gpus(PYTORCH)}")
    (workers,) = [line.split() for line in output.splitlines() if line.startswith("worker ")]
    assert workers[1] == "3" and "4 nvidia.com/gpu" in " ".join(workers)
    assert "create, get, list, watch, delete trainjobs.trainer.kubeflow.org" in output
    assert "trireme-code (optional), trireme-dataset (optional)" in output


def test_a_step_that_would_replace_what_another_leaves_is_refused(folder, trireme):
    (folder / "trained.py").write_text(TRAINED.format(rest="dataset().after(data)"))
    status, _, errors = trireme("compile", "trained.py")
    assert (status, errors.count("\n")) == (2, 1)
    assert "trained has the step dataset twice" in errors


def test_a_loop_of_what_would_replace_itself_is_refused(folder, trireme):
    text = TRAINED.format(rest="").replace(
        "        train(", "        with dsl.ParallelFor([1, 2]):\n            train("
    )
    (folder / "trained.py").write_text(text)
    status, _, errors = trireme("compile", "trained.py")
    assert (status, errors.count("\n")) == (2, 1)
    assert "trained has the step train in a loop" in errors


BRANCHES = """
from kfp import dsl
from trireme import WORKSPACE, checkout, dataset, finishing, train


@dsl.pipeline(name="branches", pipeline_config=WORKSPACE)
def branches(large: bool = False):
    with finishing("branches"):
        code, data = checkout(), dataset()
        with dsl.If(large == True):
            train(code, data, workers=8)
        with dsl.Else():
            train(code, data, workers=0)
"""


def test_a_step_in_two_branches_keeps_the_name_that_others_look_for(folder, trireme):
    (folder / "branches.py").write_text(BRANCHES)
    assert trireme("compile", "branches.py", "-o", "made")[0] == 0
    compiled = (folder / "made/branches.yaml").read_text()
    assert "exec-train-2" in compiled and "TRIREME_STEP" not in compiled


@pytest.mark.slow
def test_either_branch_leaves_what_others_look_for(folder, trireme, untracked):
    (folder / "branches.py").write_text(BRANCHES)
    status, _, errors = trireme("run", "branches.py")
    assert (status, errors) == (0, "")
    (run,) = (untracked / "runs").iterdir()
    assert (run / "workspace/steps/train/journal.jsonl").exists()
    assert "train" in {each.info.run_name for each in recorded(untracked)}


TWICE = """
from kfp import dsl
from trireme import WORKSPACE, finishing, tracked


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def say_it(word: str):
    print(word)


@dsl.component(base_image="example.org/own:1", install_kfp_package=False)
def note_it(word: str, workspace: str):
    from trireme.tracked_step import step
    from trireme.tracking import journal

    with step("note_it", workspace):
        journal.summarize(word)


@dsl.pipeline(name="twice", pipeline_config=WORKSPACE)
def twice():
    with finishing("twice"):
        for word in ("one", "two"):
            say_it(word=word)
            tracked(note_it(word=word, workspace=dsl.WORKSPACE_PATH_PLACEHOLDER))
"""


@pytest.mark.slow
def test_a_step_of_ones_own_may_come_twice(folder, trireme, untracked):
    (folder / "twice.py").write_text(TWICE)
    status, _, errors = trireme("run", "twice.py")
    assert (status, errors) == (0, "")
    (run,) = (untracked / "runs").iterdir()
    places = {step.name for step in (run / "workspace" / "steps").iterdir() if step.is_dir()}
    assert places == {"say-it", "say-it-2", "note-it", "note-it-2", "finish"}
    for name, word in (("say-it", "one"), ("say-it-2", "two")):
        assert f"[{name}] {word}\n" in trireme("logs", run.name, "--step", name)[1]
    shown = trireme("status", run.name)[1]
    assert re.search(r"note-it +FINISHED .*one", shown)
    assert re.search(r"note-it-2 +FINISHED .*two", shown)
    assert {each.info.run_name for each in recorded(untracked)} == {run.name, *places}


@pytest.mark.parametrize("target", ["kfp", "argo"])
def test_the_second_is_told_its_name_on_a_cluster(folder, trireme, target):
    (folder / "twice.py").write_text(TWICE)
    assert trireme("compile", "twice.py", "--target", target, "-o", "made")[0] == 0
    compiled = (folder / "made/twice.yaml").read_text()
    assert re.search(r"name: TRIREME_STEP\s+value: note-it-2\n", compiled)
    assert compiled.count("TRIREME_STEP") == 1


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["churn.py", "churn.yaml"])
def test_it_runs_here_and_is_recorded(folder, trireme, untracked, reference):
    trireme("compile", "churn.py", "-o", ".")
    status, output, errors = trireme("run", reference, "-p", "customers=all")
    assert (status, errors) == (0, "")
    assert "count     finished" in output
    (run,) = (untracked / "runs").iterdir()
    assert (run / "workspace" / "rows").read_text() == "3"
    assert json.loads((run / "parameters.json").read_text()) == {"customers": "all", "rows": 3}
    assert "[count] counting 3\n" in trireme("logs", run.name)[1]
    steps = {each.info.run_name: each for each in recorded(untracked)}
    assert {name: each.info.status for name, each in steps.items()} == {
        run.name: "FINISHED",
        "count": "FINISHED",
        "tell": "FINISHED",
    }
    assert steps["count"].info.start_time < steps["count"].info.end_time


@pytest.mark.slow
def test_a_failure_of_its_own_step_is_named(folder, trireme, untracked):
    words = ("run", "churn.py", "-p", "customers=all", "-p", "rows=200")
    status, output, errors = trireme(*words)
    *detail, last = errors.splitlines()
    assert (status, last) == (1, "error: step count failed: ValueError: too many rows")
    assert detail[-1] == "ValueError: too many rows"
    assert not any("KFP Executor" in line for line in detail)
    assert [line for line in detail if line.startswith("  File ")] != []
    assert not any("runpy" in line or "/kfp/" in line for line in detail)
    (run,) = (untracked / "runs").iterdir()
    assert re.search(rf"^  Resume +trireme resume {run.name}$", output, re.MULTILINE)
    assert "step count failed: ValueError: too many rows" in trireme("status", run.name)[1]
    steps = {each.info.run_name: each for each in recorded(untracked)}
    assert steps["count"].info.status == steps[run.name].info.status == "FAILED"
    assert steps["count"].data.tags["error"] == "step count failed: ValueError: too many rows"
    client = MlflowClient(f"sqlite:///{untracked}/mlflow.db")
    files = client.list_artifacts(steps["count"].info.run_id)
    assert [file.path for file in files] == ["output.log"]


TRIED_AGAIN = """
from kfp import dsl

SIZE = dsl.PipelineConfig(workspace=dsl.WorkspaceConfig(size="1Gi"))


@dsl.component
def count(workspace: str) -> int:
    with open(f"{workspace}/times", "a+") as file:
        file.write("x")
        return file.tell()


@dsl.component
def fail_once(times: int):
    if times < 2:
        raise ValueError("not yet")


@dsl.pipeline(name="part", pipeline_config=SIZE)
def part():
    fail_once(times=count(workspace=dsl.WORKSPACE_PATH_PLACEHOLDER).output)


@dsl.pipeline(name="tried", pipeline_config=SIZE)
def tried():
    part().set_retry(num_retries=3)
"""


@pytest.mark.slow
def test_where_a_group_is_tried_again_its_finished_steps_run_again(folder, trireme, untracked):
    (folder / "tried.py").write_text(TRIED_AGAIN)
    status, output, errors = trireme("run", "tried.py:tried")
    assert (status, errors) == (0, "")
    (run,) = (untracked / "runs").iterdir()
    assert (run / "workspace" / "times").read_text() == "xx"
    assert "kept" not in output


UNFILLED = """
from kfp import dsl


@dsl.component
def say(word: str):
    print(word)


@dsl.pipeline(name="unfilled")
def unfilled():
    say(word="x").set_env_variable("WHO", "{{$.inputs.parameters['who']}}")
"""


NOTHING_LEFT = """
from kfp import dsl


@dsl.component
def leave() -> int:
    return None


@dsl.component
def say(word: str):
    print(word)


@dsl.pipeline(name="nothing-left")
def nothing_left():
    say(word=f"it is {leave().output}")
"""


@pytest.mark.slow
def test_a_step_whose_input_nobody_has_left_has_failed(folder, trireme, untracked):
    (folder / "nothing_left.py").write_text(NOTHING_LEFT)
    status, _, errors = trireme("run", "nothing_left.py")
    assert status == 1 and errors.endswith(
        "error: task say: its input leave-Output: there is no value for it\n"
    )
    (run,) = (untracked / "runs").iterdir()
    assert re.search("say +FAILED", trireme("status", run.name)[1])


def test_a_step_that_cannot_begin_has_failed(folder, trireme, untracked):
    (folder / "unfilled.py").write_text(UNFILLED)
    status, output, errors = trireme("run", "unfilled.py")
    said = "there is no value for {{$.inputs.parameters['who']}}"
    assert status == 2 and said in errors and "say       failed in" in output
    (run,) = (untracked / "runs").iterdir()
    assert re.search("say +FAILED", trireme("status", run.name)[1])


LOGGING = """
from kfp import dsl


@dsl.component
def count(rows: int, by: str):
    import mlflow

    mlflow.log_metric("rows", rows)
    mlflow.set_tag("by", by)


@dsl.pipeline(name="logging")
def logging(rows: int = 7):
    count(rows=rows, by="a python3 program")
"""


@pytest.mark.slow
def test_what_its_steps_log_with_mlflow_is_in_their_runs(folder, trireme, untracked):
    (folder / "logging_rows.py").write_text(LOGGING)
    status, _, errors = trireme("run", "logging_rows.py")
    assert (status, errors) == (0, "")
    steps = {each.info.run_name: each for each in recorded(untracked)}
    assert steps["count"].data.metrics["rows"] == 7
    assert steps["count"].data.tags["by"] == "a python3 program"
    assert {each.info.status for each in steps.values()} == {"FINISHED"} and len(steps) == 2
    assert not (folder / "mlflow.db").exists() and not (folder / "mlruns").exists()


def recorded(home):
    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    ids = [each.experiment_id for each in client.search_experiments()]
    return client.search_runs(ids)
