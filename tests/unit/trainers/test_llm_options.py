"""trainers/llm_options.py."""

import pytest

from trireme.trainers import llm_options


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--batch-size 0", "--batch-size 0: must be 1 or more"),
        ("--max-length 1", "--max-length 1: must be 2 or more"),
        ("--learning-rate nan", "--learning-rate nan: must be 0 or more"),
        ("--epochs 0", "--epochs 0: must be above 0"),
        ("--steps 0", "--steps 0: must be 1 or more"),
        ("--dropout 1", "--dropout 1: must be below 1"),
        ("--method ppo", "argument --method: invalid choice: 'ppo'"),
        ("--reward a.py", "--method grpo goes with --reward FILE.py:FUNCTION"),
        ("--strategy fsdp --adapter qlora", "--strategy fsdp goes with --method sft and --adapter"),
        ("--strategy fsdp --method dpo", "--strategy fsdp goes with --method sft and --adapter"),
        ("--method dpo --packing", "--packing goes with --method sft, not with dpo"),
    ],
)
def test_what_cannot_be_is_one_sentence(words, said):
    with pytest.raises(ValueError) as refused:
        llm_options.parse("", words.split())
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("words", "rate"),
    [("", 2e-4), ("--adapter none", 2e-5), ("--method dpo", 5e-6), ("--learning-rate 1", 1)],
)
def test_the_learning_rate_goes_by_method_and_adapter(words, rate):
    assert llm_options.parse("", words.split()).learning_rate == rate
