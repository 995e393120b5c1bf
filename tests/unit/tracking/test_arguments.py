"""trireme/tracking/arguments.py: a program's arguments one by one."""

import pytest

from trireme.tracking.arguments import HIDDEN, MOST, each, one_by_one
from trireme.tracking.batch import NAME_LIMIT, PARAMETER_LIMIT, accepted


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("--lr 0.01 --epochs=3", {"lr": "0.01", "epochs": "3"}),
        ("-b 32 -j8 -lr 1e-3", {"b": "32", "j": "8", "lr": "1e-3"}),
        ("--amp --lr 0.1 --fast", {"amp": "true", "lr": "0.1", "fast": "true"}),
        ("--shift -1.5 --clip -inf", {"shift": "-1.5", "clip": "-inf"}),
        ("model.depth=3 +trainer.x=1 ++y=", {"model.depth": "3", "trainer.x": "1", "y": ""}),
        ("db/mysql@src=one", {"db_mysql_src": "one"}),
        ("train a.yaml --lr 1 b.yaml", {"0": "train", "1": "a.yaml", "lr": "1", "2": "b.yaml"}),
        ("--betas 0.9 0.999 --data a b", {"betas": "0.9 0.999", "data": "a", "0": "b"}),
        ("--lr 1 --lr 2", {"lr": "2"}),
        ("--amp -- --lr 1", {"amp": "true", "0": "--lr", "1": "1"}),
        ("s3://bucket?a=b -1 - --1", {"0": "s3://bucket?a=b", "1": "-1", "2": "-", "3": "--1"}),
        ("--a/../../framework x --sätze 1", {"a_.._.._framework": "x", "sätze": "1"}),
        ("-b 1 -B 2 -B 3", {"b": "1", "B_2": "3"}),
        ("", {}),
    ],
)
def test_each_argument_has_a_name(args, found):
    named = one_by_one(args.split())
    assert named == {f"args.{name}": value for name, value in found.items()}
    assert [accepted(name) for name in named] == [*named]


@pytest.mark.parametrize(
    ("args", "is_hidden"),
    [
        ("--password=a", True),
        ("--db.passwd 1234", True),
        ("--hf-token abc", True),
        ("api_key=abc", True),
        ("--db postgresql://me:it@host/x", True),
        ("--max-tokens 512", False),
        ("--tokenizer bpe", False),
        ("--use-token", False),
    ],
)
def test_what_is_withheld_as_a_variable_is_withheld_here(args, is_hidden):
    (value,) = one_by_one(args.split()).values()
    assert (value == HIDDEN) == is_hidden


def test_what_mlflow_does_not_take_is_not_given_to_it():
    found = one_by_one([f"--{'n' * 1000}", "x" * 10_000, "--empty="])
    assert {len(name) <= NAME_LIMIT for name in found} == {True}
    assert [*found.values()] == ["x" * PARAMETER_LIMIT, ""]
    assert len(one_by_one([f"--o{number}" for number in range(10_000)])) == MOST


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"args": ["--lr", 0.1]}, {"args.lr": "0.1"}),
        ({"args": "['--lr', '0.1', '-n', 3]"}, {"args.lr": "0.1", "args.n": "3"}),
        ({"args": '["--lr", "0.1"]'}, {"args.lr": "0.1"}),
        ({"args": "['--lr', '1', '--x', '1']", "args.lr": "2", "seed": 0}, {"args.lr": "2"}),
        ({"args": [], "job": '{"elastic": true}'}, {"job.elastic": "True"}),
        ({"args": "['--lr', '0."}, {"args": "['--lr', '0."}),
        ({"args": "[" * 10_000}, {"args": "[" * 10_000}),
        (
            {"job": "{'gpu': 1, 'env': {'A': 'b', 'HF_TOKEN': 'c'}}", "gate": "{}"},
            {"job.gpu": "1", "job.env.A": "b", "job.env.HF_TOKEN": HIDDEN, "gate": "{}"},
        ),
    ],
)
def test_parameters_are_read_as_they_are_given_and_as_mlflow_has_them(params, found):
    assert {name: value for name, value in each(params).items() if name != "seed"} == found
