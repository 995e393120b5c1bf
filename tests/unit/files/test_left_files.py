"""trireme/files/left_files.py: what a program may leave in MODEL_DIR."""

import errno
import os
import shutil
import socket
from pathlib import Path

import pytest

from trireme.errors import StepFailed
from trireme.files import event_files as events
from trireme.files import left_files
from trireme.runner import training_step
from trireme.tracking import sync


@pytest.fixture
def left(tmp_path):
    folder = tmp_path / "model"
    (folder / "checkpoint-2").mkdir(parents=True)
    (folder / "checkpoint-2" / "weights").write_text("1")
    return folder


def test_links_within_the_folder_are_fine(left):
    (left / "latest").symlink_to("checkpoint-2")
    (left / "weights").symlink_to(left / "checkpoint-2" / "weights")
    (left / "checkpoint-2" / "up").symlink_to("../weights")
    (left / "broken").symlink_to("nothing")
    (left / "itself").symlink_to("itself")
    left_files.tidy(left, "MODEL_DIR")


@pytest.mark.parametrize(
    "target", ["/etc/shadow", "/dev/zero", "../secret", "checkpoint-2/../../secret", "/proc/self"]
)
def test_links_that_leave_it_are_named_and_the_rest_is_kept(left, target, capsys):
    (left.parent / "secret").write_text("key")
    (left / "inner").mkdir()
    (left / "inner" / "out").symlink_to(target if target[0] == "/" else f"../{target}")
    said = left_files.tidy(left, "MODEL_DIR")
    assert said.startswith("not kept of MODEL_DIR: the link 'inner/out', which leaves it for '")
    assert capsys.readouterr().out.startswith("warning: MODEL_DIR: the link 'inner/out', which")
    assert [*(left / "inner").iterdir()] == []
    assert (left / "checkpoint-2" / "weights").read_text() == "1"
    assert (left.parent / "secret").read_text() == "key"


def test_what_is_no_file_is_named(left, monkeypatch):
    os.mkfifo(left / "pipe")
    assert left_files.tidy(left, "MODEL_DIR") == "not kept of MODEL_DIR: a FIFO, 'pipe'"
    assert not (left / "pipe").exists()
    monkeypatch.chdir(left)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("sock")
        assert left_files.tidy(left, "MODEL_DIR") == "not kept of MODEL_DIR: a socket, 'sock'"


@pytest.mark.parametrize("put", ["link", "file", "FIFO", "nothing"])
def test_the_folder_itself_must_not_have_become_something_else(left, put):
    shutil.rmtree(left)
    (left.parent / "other").mkdir()
    if put == "link":
        left.symlink_to("other")
    elif put == "file":
        left.write_text("1")
    elif put == "FIFO":
        os.mkfifo(left)
    with pytest.raises(StepFailed, match=r"^MODEL_DIR is no folder any more$"):
        left_files.tidy(left, "MODEL_DIR")


def test_a_folder_that_cannot_be_read_is_named(left, monkeypatch):
    def scandir(folder):  # as for who is not root
        if folder.name == "checkpoint-2":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return real(folder)

    real = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(StepFailed) as caught:
        left_files.tidy(left, "MODEL_DIR")
    assert str(caught.value) == "MODEL_DIR: 'checkpoint-2' cannot be read: Permission denied"


@pytest.mark.parametrize("target", [".", ".."])
def test_links_that_copies_would_follow_for_ever_are_not_kept(left, target):
    (left / "checkpoint-2" / "again").symlink_to(target)
    said = "not kept of MODEL_DIR: the link 'checkpoint-2/again' to a folder that it is in"
    assert left_files.tidy(left, "MODEL_DIR") == said
    assert [file.name for file in (left / "checkpoint-2").iterdir()] == ["weights"]


def test_of_many_that_are_not_kept_some_are_named(left, capsys):
    for number in range(5):
        (left / f"out-{number}").symlink_to("/etc")
    assert left_files.tidy(left, "MODEL_DIR").endswith(" and 2 more")
    assert capsys.readouterr().out.count("warning: MODEL_DIR: the link 'out-") == 5


def test_what_cannot_be_removed_is_named(left, monkeypatch):
    def unlink(self):  # as for who is not root
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    (left / "out").symlink_to("/etc")
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(StepFailed, match=r"and it cannot be removed: Permission denied$"):
        left_files.tidy(left, "MODEL_DIR")


def test_a_program_that_left_a_link_has_trained(tmp_path, left):
    (left / "out").symlink_to("/etc")
    assert training_step._keep(left, tmp_path / "kept").startswith(
        "not kept of MODEL_DIR: the link 'out'"
    )
    assert (tmp_path / "kept" / "checkpoint-2" / "weights").read_text() == "1"


def test_links_in_a_circle_are_named(left):
    (left / "checkpoint-3").mkdir()
    (left / "checkpoint-2" / "again").symlink_to("../checkpoint-3")
    (left / "checkpoint-3" / "again").symlink_to("../checkpoint-2")
    with pytest.raises(StepFailed, match=r"holds a link to a folder that it is in, .*/again'$"):
        left_files.tidy(left, "MODEL_DIR")


@pytest.mark.parametrize("last", ["weights", ""])
def test_a_few_links_do_not_make_billions_of_files(left, last):
    for level in range(12):
        (left / str(level)).mkdir()
        for link in range(8 if level < 11 else 0):
            (left / str(level) / f"to-{link}").symlink_to(f"../{level + 1}")
    (left / "11" / last).touch()
    with pytest.raises(StepFailed, match="holds more than 1,000,000 files, links followed"):
        left_files.tidy(left, "MODEL_DIR")


def test_nor_are_folders_deeper_than_copies_can_follow(left, monkeypatch):
    monkeypatch.chdir(left)
    for _ in range(300):  # more than this, pytest could not remove
        os.mkdir("n")  # noqa: PTH102 - each in the one before
        os.chdir("n")
    monkeypatch.chdir(left)
    with pytest.raises(StepFailed, match="more than 200 folders deep"):
        left_files.tidy(left, "MODEL_DIR")


def test_nor_are_chains_of_links(left):
    for number in range(300):
        (left / f"{number:03}").mkdir()
        (left / f"{number:03}" / "next").symlink_to(f"../{number + 1:03}")
    with pytest.raises(StepFailed, match="more than 200 folders deep"):
        left_files.tidy(left, "MODEL_DIR")


def test_links_by_its_own_name_still_lead_where_they_led(left):
    (left / "latest").symlink_to("../model.partial/checkpoint-2")
    (left / "newest").symlink_to(left.with_name("model.partial") / "checkpoint-2")
    left.rename(left.with_name("model.partial"))
    training_step._keep(left.with_name("model.partial"), left)
    assert (left / "latest" / "weights").read_text() == "1"
    assert (left / "newest" / "weights").read_text() == "1"


def test_what_is_no_file_is_never_taken_for_an_artifact(tmp_path):
    os.mkfifo(tmp_path / "events.out.tfevents.1")
    assert events.found([tmp_path]) == {}
    # Nobody writes to it: reading would wait for ever.
    sync._log_artifact(tmp_path / "events.out.tfevents.1", "", sync.StepRun("step", "pipeline"))
