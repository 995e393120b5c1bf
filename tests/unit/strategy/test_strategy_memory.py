"""trireme strategy predicts what the language model's trainer needs, measured."""

import pytest
from trainer_memory import measure

pytestmark = pytest.mark.slow

MODEL = "--layers 4 --width 384 --heads 6 --vocabulary 4096 --batch-size 8"


def test_the_memory_of_the_trainer_is_what_was_predicted():
    cases = [f"--strategy {name}" for name in ("ddp", "fsdp --bf16", "pp")]
    stages = measure(2, 64, MODEL, cases)
    assert len(stages) == 4
    for stage in stages:
        assert stage.predicted == pytest.approx(stage.measured, rel=0.15), stage
