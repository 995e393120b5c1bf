"""A sweep is a loop: what is compiled is as small for 5,000 trainings as for one."""

import json

import yaml

from trireme.compiling import ir
from trireme.compiling.loops import limited
from trireme.pipeline import catalog
from trireme.targets.kubeflow.parameters import check

LOOP = """
from kfp import dsl

@dsl.component(base_image="python:3.11")
def one(item: str):
    pass

@dsl.pipeline(name="own")
def own():
    with dsl.ParallelFor(["a", "b", "c"]) as item:
        one(item=item)
"""

ETCD = 1_500_000  # bytes of an object that etcd takes


def at_once(file):
    """How many steps of the loop run at once, and how many share all trainings."""
    spec = next(yaml.safe_load_all(file.read_text()))
    (steps,) = [component for name, component in spec["components"].items() if "exit" in name]
    tasks = steps["dag"]["tasks"]
    (loop,) = [task for task in tasks.values() if "parameterIterator" in task]
    shares = tasks["plan"]["inputs"]["parameters"]["at_once"]["runtimeValue"]["constant"]
    return loop["iteratorPolicy"]["parallelismLimit"], shares


def test_5000_trainings_fit_into_what_etcd_takes(tmp_path):
    sweep = catalog.load("sweep")
    grid = {"--learning-rate": [number / 1000 for number in range(1, 5001)]}
    given = sweep.complete(sweep.given([f"grid={json.dumps(grid)}"], None), set())
    check(given)
    file = ir.write(sweep, tmp_path)
    assert file.stat().st_size + len(json.dumps(given)) < ETCD / 5


def test_a_loop_over_a_list_that_is_written_down_is_limited_as_well(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(LOOP)
    compiled = ir.write(limited(catalog.load(str(file)), 2), tmp_path).read_text()
    spec = next(yaml.safe_load_all(compiled))
    (loop,) = spec["root"]["dag"]["tasks"].values()
    assert (loop["iteratorPolicy"], "inputs" in loop) == ({"parallelismLimit": 2}, False)


def test_how_many_run_at_once_is_said_when_it_is_compiled(tmp_path):
    sweep = catalog.load("sweep")
    assert at_once(ir.write(limited(sweep, 16), tmp_path)) == (16, 16)
    assert at_once(ir.write(limited(sweep, None), tmp_path)) == (4, 4)
