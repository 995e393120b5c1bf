"""trireme/targets/differing.py: the parameters by which the runs in a list are told apart."""

from dataclasses import dataclass, field

from trireme.targets import differing
from trireme.targets.base import Run


@dataclass(frozen=True, kw_only=True)
class Given(Run):
    """A run of a pipeline with parameters."""

    of: str = "flowers"
    given: dict = field(default_factory=dict)

    @property
    def pipeline(self):
        return self.of

    @property
    def parameters(self):
        return self.given


def told(*runs):
    every = differing.parameters(
        [Given("x", "FINISHED", 0, 0, of=of, given=given) for of, given in runs]
    )
    return [" ".join(f"{name}={value}" for name, value in each.items()) for each in every]


def test_only_what_differs_among_runs_of_a_pipeline_is_told_the_arguments_first():
    common = {"code_url": "https://example.org/x.git", "seed": 0}
    assert told(
        ("flowers", common | {"workers": 2, "args": ["--lr", "0.1", "--data", "x"]}),
        ("flowers", common | {"workers": 1, "args": '["--lr", "0.2", "--data", "x", "--amp"]'}),
        ("digits", common | {"workers": 7}),
    ) == ["lr=0.1 workers=2", "lr=0.2 amp=true workers=1", ""]


def test_a_run_of_which_nothing_is_known_and_one_before_a_parameter_do_not_count():
    younger = {"seed": 0, "requirements": "[]", "job": {"gpu": 1, "env": {"HF_TOKEN": "a"}}}
    assert told(("flowers", {}), ("flowers", {"seed": 0, "job": {}}), ("flowers", younger)) == [
        "",
        "",
        "job.gpu=1 job.env.HF_TOKEN=(withheld)",
    ]
    assert told(("flowers", {"base_model": ""}), ("flowers", {"base_model": "x"})) == [
        "",
        "base_model=x",
    ]
    assert told() == []
