"""What is said before a job goes to nodes that are reclaimed, by its program's code."""

import pytest

from trireme.job.job import TrainingJob
from trireme.runner.reclaimed import MOST, note


def said(folder, program="", *, spot="gke", args=(), directory="", url=None, **more):
    where = folder / directory
    where.mkdir(parents=True, exist_ok=True)
    (where / "train.py").write_text(program)
    fields = {"entrypoint": "train.py"} if not more.get("command") else {}
    job = TrainingJob(
        name="train",
        framework="pytorch",
        image="example.org/train:1",
        args=list(args),
        scheduling={"spot": spot} if spot else {},
        **fields,
        **more,
    )
    return note(job, str(folder) if url is None else url, directory)


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("from transformers import Trainer", "enable_jit_checkpoint=True in its TrainingArguments"),
        ("import lightning as L", "ModelCheckpoint(save_on_exception=True, save_last=True)"),
        ("from accelerate import Accelerator", "accelerate has no switch: handle SIGTERM"),
        ("import torch", "handle SIGTERM, save in CHECKPOINT_DIR, and end with status 143"),
        (
            "from transformers import T\nT(enable_jit_checkpoint=False)",
            "enable_jit_checkpoint=True",
        ),
    ],
)
def test_a_program_without_a_switch_is_told_of_with_what_its_library_has(tmp_path, program, how):
    sentence = said(tmp_path, program)
    assert sentence.startswith("scheduling.spot gke: nothing in the code of 'train.py' saves")
    assert how in sentence


@pytest.mark.parametrize(
    "program",
    [
        "signal.signal(signal.SIGTERM, save)",
        "TrainingArguments(enable_jit_checkpoint=True)",
        "ModelCheckpoint(save_on_exception=True)",
        "tf.distribute.experimental.PreemptionCheckpointHandler(cluster, checkpoint)",
    ],
)
def test_of_one_that_saves_nothing_is_said(tmp_path, program):
    assert said(tmp_path, program) == ""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "loop.py").write_text(program)
    assert said(tmp_path, "import package.loop") == ""


def test_an_option_is_a_switch_too_unless_it_is_off(tmp_path):
    program = "from transformers import HfArgumentParser"
    assert said(tmp_path, program, args=["--enable_jit_checkpoint", "true"]) == ""
    assert "nothing in the code" in said(
        tmp_path, program, args=["--enable_jit_checkpoint", "false"]
    )


def test_where_the_code_is_elsewhere_that_is_said(tmp_path):
    for url in ("https://example.org/code.git", None):
        job = TrainingJob(
            name="train",
            framework="pytorch",
            image="example.org/train:1",
            entrypoint="train.py",
            scheduling={"spot": "eks"},
        )
        assert "cannot be seen from here" in note(job, url)


def test_without_spot_nodes_and_of_the_reference_trainers_nothing_is_said(tmp_path):
    assert said(tmp_path, "import torch", spot=None) == ""
    assert said(tmp_path, "import torch", url="") == ""


def test_a_directory_of_the_repository_is_looked_at_alone(tmp_path):
    (tmp_path / "other.py").write_text("signal.SIGTERM")
    assert "nothing in the code" in said(tmp_path, "import torch", directory="sub")


@pytest.mark.parametrize("place", [".venv/lib", ".hidden", "env/lib"])
def test_an_environment_with_many_files_hides_no_program(tmp_path, place):
    (tmp_path / place).mkdir(parents=True)
    for number in range(MOST + 1):
        (tmp_path / place / f"{number}.py").touch()
    if place.endswith("lib"):
        (tmp_path / place).with_name("pyvenv.cfg").touch()
    assert said(tmp_path, "signal.signal(signal.SIGTERM, save)") == ""
    assert "nothing in the code" in said(tmp_path, "import torch")


def test_of_more_files_than_are_looked_at_nothing_is_said_to_be_lacking(tmp_path):
    for number in range(MOST + 1):
        (tmp_path / f"a{number}.py").touch()
    assert "cannot be seen from here" in said(tmp_path, "signal.signal(signal.SIGTERM, save)")
