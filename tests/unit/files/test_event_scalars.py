"""The scalars in event files, as TensorBoard's own writers leave them."""

from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from trireme.files import event_files, event_scalars


def write(folder, **tags):
    writer = EventFileWriter(str(folder))
    for tag, values in tags.items():
        for step, value in enumerate(values):
            event = Event(wall_time=1000.5 + step, step=step)
            event.summary.value.add(tag=tag, simple_value=value)
            writer.add_event(event)
    writer.close()


def read(folder):
    return event_scalars.read(event_files.found([folder]))


def test_scalars_are_read_with_steps_and_times(tmp_path):
    write(tmp_path / "runs", **{"train/loss": [0.5, 0.25], "lr": [1.0]})
    assert read(tmp_path) == {
        "train/loss": [[0, 0.5, 1_000_500], [1, 0.25, 1_001_500]],
        "lr": [[0, 1.0, 1_000_500]],
    }


def test_those_of_several_folders_are_told_apart(tmp_path):
    for name in ("train", "validation"):
        write(tmp_path / "logs" / name, epoch_loss=[0.5])
    assert {*read(tmp_path)} == {"train/epoch_loss", "validation/epoch_loss"}


def test_of_very_many_values_some_are_kept_and_the_last(tmp_path):
    write(tmp_path, loss=[0.5] * 2500)
    steps = [step for step, _, _ in read(tmp_path)["loss"]]
    assert len(steps) <= event_scalars.POINTS
    assert steps[-1] == 2499


@pytest.mark.parametrize("cut", [0, 7, 60, -3])
def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path, cut):
    write(tmp_path, loss=[0.5, 0.25])
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:cut] + b"\xff" * 40)
    assert len(read(tmp_path).get("loss", [])) <= 2


def test_a_directory_without_any_has_none():
    assert event_scalars.read({}) == {}
    assert event_scalars.read({Path("x"): Path("/nowhere/x")}) == {}
