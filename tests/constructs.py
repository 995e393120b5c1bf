"""What kfp's DSL has, each with a pipeline, and what has to come of it at every engine.

``make golden`` writes docs/explanation/engines.md of this. That each is so is shown here by
tests/unit/graph/test_constructs_here.py, there by
tests/cluster/test_constructs_on_engines.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import odd_pipelines as odd

from trireme.graph import reading
from trireme.graph.graph import Graph


@dataclass(frozen=True)
class Construct:
    """A construct of kfp's.

    Attributes:
        name: What it is, for people.
        pipeline: A pipeline that uses it.
        said: What its steps say, in whatever order: which have run, how often, with which inputs.
        given: The arguments of the run.
        ends: How the run ends.
        argo, kubeflow: How it differs there; empty where it is the same. One that begins with
            "refused" is refused before anything is created.
    """

    name: str
    pipeline: Callable[..., Any]
    said: list[str]
    given: dict[str, Any] = field(default_factory=dict)
    ends: str = "FINISHED"
    argo: str = ""
    kubeflow: str = ""

    @property
    def graph(self) -> Graph:
        """Its pipeline, as it is read."""
        return reading.of_pipeline(self.pipeline)


ESCAPES = 'a\\b"c\nd'
CONDITIONS = ["real > 0", "real >= 1"]

CONSTRUCTS = [
    Construct(
        "If, Elif, Else: texts with quotes, numbers of both types, truth values",
        odd.comparisons,
        [
            *("it's", "2", "quote", "same", "differs", "real > 0", "real >= 1", "whole >= limit"),
            *("whole is text 2", "off and small"),
        ],
    ),
    Construct(
        "the same with line breaks and backslashes",
        odd.comparisons,
        ['a\\b"c', "1", "escapes", "same", "differs", *CONDITIONS, "whole < limit", "on"],
        {"word": ESCAPES, "limit": 2.5, "n": 1, "on": True},
    ),
    Construct(
        "the same with what looks like code",
        odd.comparisons,
        ["' or ''=='", "6", "same", *CONDITIONS, "whole >= limit", "n > 5"],
        {"word": "' or ''=='", "other": "' or ''=='", "n": 6},
    ),
    Construct("a condition on a field of a loop's item", odd.fields, ["is a", "'is not a'"]),
    Construct(
        "OneOf of values and artifacts",
        odd.one_of,
        ["tails", "'tails'", "TAILS tails"],
        {"side": "tails"},
    ),
    Construct(
        "ParallelFor in ParallelFor, over the item of the outer one",
        odd.nested_items,
        ["cell a", "cell b", "cell c", "a of ['a', 'b']", "b of ['a', 'b']", "c of ['c']"],
    ),
    Construct("fields of items in texts", odd.field_in_text, ["of a", "of b"]),
    Construct(
        "a loop over a field of an item",
        odd.loop_over_field,
        ["a: 1", "a: 2"],
        kubeflow="refused: 2.17 takes the field of the field",
    ),
    Construct(
        "Collected values and artifacts, in order, of a loop with a limit",
        odd.collected,
        ["['B', 'A', 'C'] ['b', 'a', 'c']"],
    ),
    Construct(
        "Collected of turns one of which leaves nothing",
        odd.collected_of_some,
        ["['B', 'C'] ['b', 'c']"],
        kubeflow="the step after fails: 2.17 takes all turns or none",
    ),
    Construct(
        "set_path of an artifact",
        odd.elsewhere,
        ["ELSEWHERE e"],
        argo="a step after finds no file: what is not below `path` is left in the pod",
    ),
    Construct(
        "a loop over artifacts",
        odd.loop_over_artifacts,
        ["A a", "B b"],
        kubeflow="refused: 2.17 knows none",
    ),
    Construct(
        "pipelines as steps, with their defaults",
        odd.of_pipelines,
        ["tails", "heads", "a", "b", "'t'", "'h'", "'a'", "'b'"],
    ),
    Construct(
        "ExitHandler, an item in a text within",
        odd.item_in_text,
        ["item A", "item B", "done well exit-handler-1"],
    ),
    Construct(
        "texts of what is outside of groups in groups",
        odd.outside_in_text,
        ["x w", "y w", "w well exit-handler-1"],
    ),
    Construct(
        "a failure: turns that have begun go on, nothing follows, the exit handler runs",
        odd.failing,
        ["1", "3", "done failed exit-handler-1"],
        ends="FAILED",
    ),
    Construct(
        "ignore_upstream_failure, with a default for what is lacking",
        odd.ignoring,
        ["7"],
        ends="FAILED",
        kubeflow="the task that lacks an input fails: 2.17 does not take its default",
    ),
    Construct(
        "retries",
        odd.retried,
        ["try 1", "try 2", "try 3", "after"],
        kubeflow="only lost pods are tried again: the `templateDefaults` of 2.17 hold for a step "
        "with retries, too; [what to do](../how-to/tune-kubeflow.md#lost-pods)",
    ),
    Construct(
        "values of every type, also in texts, and output files",
        odd.every_type,
        [
            "9007199254740991 1e-300 True 2.5|true|2|2|9007199254740991",
            repr("Answer in one word.\nBe polite: 'yes'."),
            "given None",
            "'abab'",
        ],
    ),
    Construct(
        "objects, lists and texts with quotes within a text",
        odd.object_in_text,
        ['in {"a":"{{x}}","b":[1,2.5,true]} it\'s "so"'],
        kubeflow="the step fails: 2.17 pastes them into JSON as they are",
    ),
    Construct(
        "lists whose type says of what, in texts; a truth value compared with a text",
        odd.lists_in_texts,
        ["'[1,2] [3]'", "'1 of [1,2]'", "'2 of [1,2]'", "'on'"],
    ),
    Construct("optional inputs that are left out", odd.left_out, ["None None"]),
    Construct(
        "imported artifacts",
        odd.imported,
        ["s3://b/k elsewhere"],
        {"uri": "s3://b/k"},
        kubeflow="the artifact is downloaded before a step that takes it, and has to be there",
    ),
    Construct("independent steps, and one after all", odd.apart, ["0", "1", "2", "3", "end"]),
]
