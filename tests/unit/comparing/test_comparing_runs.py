"""trireme/comparing: what differs between runs, and how the terminal and the page show it."""

import math
import re

import pytest

from trireme.comparing import words
from trireme.comparing.comparison import MOST_PACKAGES, RecordedRun, compare
from trireme.evaluation.figure_names import better
from trireme.report.picture import Curve

HOSTILE = "<script>alert('1')</script>\x1b[31m"


def recorded(name="one", **fields):
    return RecordedRun(name, name, "FINISHED", **fields)


@pytest.fixture(autouse=True)
def eighty(monkeypatch):
    """A terminal of eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")


def test_what_differs_comes_first_and_what_is_empty_is_as_what_is_not_there():
    found = compare(
        [
            recorded(
                "one",
                origin={"commit": "a" * 40, "image": "x:1"},
                parameters={"workers": "1", "base_model": "", "seed": "0", "args.lr": "0.1"},
            ),
            recorded(
                "two",
                origin={"commit": "b" * 40, "image": "x:1"},
                parameters={"workers": "2", "seed": "0", "args.lr": "0.2", "args.amp": "true"},
            ),
        ]
    )
    assert [(row.name, *row.values) for row in found.differing] == [
        ("args.lr", "0.1", "0.2"),
        ("args.amp", "", "true"),
        ("workers", "1", "2"),
        ("commit", "a" * 40, "b" * 40),
    ]
    assert found.same == 2
    assert found.differences[0] == {"name": "args.lr", "one": "0.1", "two": "0.2"}
    assert str(found).splitlines() == [
        "A  one  FINISHED",
        "B  two  FINISHED",
        "",
        "DIFFERS   A             B",
        "args.lr   0.1           0.2",
        "args.amp  -             true",
        "workers   1             2",
        f"commit    {'a' * 12}  {'b' * 12}",
        "2 parameters are the same",
    ]
    assert "nothing differs; 4 parameters are the same" in str(
        compare([recorded(name, parameters=dict.fromkeys("abcd", "1")) for name in "ab"])
    )


def test_the_best_is_marked_where_it_is_known_which_is_better():
    several = (
        {"held_out_accuracy": 0.9, "loss": 0.5, "left": 3, "rmse": math.inf},
        {"held_out_accuracy": 0.8, "loss": 0.25, "left": 4, "rmse": 2.0},
        {"held_out_accuracy": 0.9, "loss": 0.25},
    )
    found = compare([recorded(str(n), metrics=metrics) for n, metrics in enumerate(several)])
    assert {row.name: row.best for row in found.measured} == {
        "held_out_accuracy": (0, 2),
        "loss": (1, 2),
        "left": (),
        "rmse": (),
    }
    assert found.metrics[1] == {"name": "loss", "0": 0.5, "1": 0.25, "2": 0.25, "best": ["1", "2"]}
    assert "loss               0.5    0.25 <  0.25 <" in str(found).splitlines()
    assert "left               3      4       -" in str(found).splitlines()


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("held_out_accuracy", 1),
        ("val/acc", 1),
        ("macro_f1", 1),
        ("samples_per_second", 1),
        ("train_loss", -1),
        ("loss of evaluate", -1),
        ("Val-RMSE", -1),
        ("duration_seconds", 0),  # the least is that of a run which has failed
        ("learning_rate", 0),
        ("lossless", 0),
        ("cost", 0),
    ],
)
def test_the_direction_of_a_metric_is_told_by_its_name(name, direction):
    assert better(name) == direction


def test_numbers_that_differ_are_seen_to():
    assert words.figures([0.97493, 0.97494, None]) == ["0.97493", "0.97494", "-"]
    assert words.figures([1 / 3, 1 / 3]) == ["0.3333", "0.3333"]


def test_values_are_cut_where_they_still_differ():
    long = "s3://bucket/" + "folder/" * 20
    shown = words.shortened([f"{long}a/x", f"{long}b/x", ""], 20)
    assert shown == ["…lder/a/x", "…lder/b/x", "-"]
    assert words.shortened(["a" * 30, "b"], 20) == ["a" * 19 + "…", "b"]
    assert words.shortened(["sha256:" + "ab" * 32], 20) == ["sha256:" + "ab" * 6]


def test_packages_differ_only_where_those_of_all_are_known():
    many = {f"p{number:02}": "1" for number in range(MOST_PACKAGES + 3)}
    found = compare([recorded(packages=many), recorded("two", packages=dict.fromkeys(many, "2"))])
    assert found.differing[0] == ("package p00", ("1", "2"))
    assert len(found.differing) == MOST_PACKAGES
    assert found.notes == ("3 more packages differ",)
    assert compare([recorded(packages=many), recorded("two")]).differing == []


def test_curves_lie_over_each_other_those_of_seconds_apart():
    one = {"loss": Curve([0, 1, 2], [4.0, 2.0, 1.0]), "only": Curve([0, 1], [0.0, 1.0])}
    two = {"loss": Curve([0, 2], [4.0, math.nan]), "only": Curve([0, 9], [0.0, 1.0], "s")}
    found = compare([recorded(curves=one), recorded("two", curves=two)])
    assert [(chart.name, sorted(chart.curves)) for chart in found.charts] == [
        ("loss", [0, 1]),
        ("only", [0]),
        ("only", [1]),
    ]
    drawn = words.plot({"A": one["loss"], "B": Curve([0, 2], [1.0, 4.0])}, 40)
    assert len(drawn) == words.HEIGHT + 1
    assert drawn[0].startswith("4 |A") and drawn[0].endswith("B")
    assert drawn[-2].startswith("1 |B") and drawn[-2].endswith("A")
    assert any(words.SEVERAL in line for line in drawn)
    assert re.fullmatch(r"  \+step 0 +2", drawn[-1])
    assert {len(line) for line in drawn} <= {*range(41)}


@pytest.mark.parametrize(
    "curve",
    [
        Curve([5], [1.0]),
        Curve([1, 2], [3.0, 3.0]),
        Curve([1, 1], [1.0, 2.0]),
        Curve([0, 1], [-1.7e308, 1.7e308]),
        Curve([0, 1, 2], [math.nan, 1.0, math.inf]),
        Curve([float(n) for n in range(10_000)], [math.sin(n) for n in range(10_000)]),
    ],
)
def test_any_curve_can_be_drawn(curve):
    drawn = words.plot({"A": curve}, 60)
    assert sum("A" in line for line in drawn) >= 1
    page = compare([recorded(curves={"x": curve}), recorded("two")]).html
    assert page.count('<svg class="curve"') == 1


def test_the_page_has_it_all_and_nothing_that_is_said_is_markup():
    found = compare(
        [
            recorded(
                HOSTILE,
                parameters={HOSTILE: HOSTILE},
                metrics={HOSTILE: 1.0, "loss": 1.0},
                curves={HOSTILE: Curve([0, 1], [0.0, 1.0], HOSTILE)},
            ),
            recorded("two", metrics={"loss": 0.5}),
        ],
        [HOSTILE],
    )
    page = found.html
    assert "<script" not in page and "\x1b" not in page and "\x1b" not in str(found)
    assert '<td class="best" title="the best">✓ 0.5</td>' in page
    assert page.count("--line0") >= 2 and 'class="line0 solid"' in page
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
