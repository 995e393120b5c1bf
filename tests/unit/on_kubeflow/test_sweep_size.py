"""A sweep is a loop: what is compiled is as small for 500 trainings as for one."""

import json

import yaml

from trireme.pipelines import catalog
from trireme.pipelines.compiling import ir
from trireme.pipelines.compiling.loops import limited
from trireme.pipelines.targets.kubeflow.parameters import check

ETCD = 1_500_000  # bytes of an object that etcd takes


def loop_of(file):
    spec = next(yaml.safe_load_all(file.read_text()))
    (steps,) = [component for name, component in spec["components"].items() if "exit" in name]
    (loop,) = [task for task in steps["dag"]["tasks"].values() if "parameterIterator" in task]
    return loop


def test_500_trainings_fit_into_what_etcd_takes(tmp_path):
    sweep = catalog.load("sweep")
    grid = {"--learning-rate": [number / 1000 for number in range(1, 501)]}
    given = sweep.arguments([f"grid={json.dumps(grid)}"], None, set())
    check(given)
    file = ir.write(sweep, tmp_path)
    assert file.stat().st_size + len(json.dumps(given)) < ETCD / 5


def test_how_many_run_at_once_is_said_when_it_is_compiled(tmp_path):
    sweep = catalog.load("sweep")
    policy = loop_of(ir.write(limited(sweep, 16), tmp_path))["iteratorPolicy"]
    assert policy == {"parallelismLimit": 16}
    policy = loop_of(ir.write(limited(sweep, None), tmp_path))["iteratorPolicy"]
    assert policy == {"parallelismLimit": 4}
