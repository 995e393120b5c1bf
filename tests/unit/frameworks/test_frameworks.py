"""trireme/frameworks: each is a file, and no other place knows them by name."""

import re
from pathlib import Path

import pytest
from shapes import SHAPES

import trireme
from trireme import frameworks
from trireme.frameworks import FRAMEWORKS, KINDS, framework_of, least_replicas, of_kind

ROOT = Path(__file__).parents[3]
PACKAGE = Path(trireme.__file__).parent

NAMES = {*FRAMEWORKS, *(kind for kind in KINDS if of_kind(kind)), "torch", "torchrun", "mpirun"}
NAMED = re.compile(rf"\b({'|'.join(NAMES)})\b", re.IGNORECASE)


@pytest.mark.parametrize("folder", ["local", "cluster"])
def test_neither_way_to_run_a_job_names_a_framework_or_its_kind(folder):
    files = list((PACKAGE / "runner" / folder).glob("*.py"))
    assert len(files) > 5
    found = [
        f"{file.name}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if NAMED.search(line)
    ]
    assert found == []


def test_a_file_in_the_folder_is_a_framework():
    files = {file.stem for file in (PACKAGE / "frameworks").glob("*.py")}
    of_files = {type(framework).__module__.rpartition(".")[2] for framework in FRAMEWORKS.values()}
    assert of_files == files - {"__init__", "base", "kinds"}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_comes_with_what_contributing_says(name):
    kind = FRAMEWORKS[name].kind
    has_shape = any(fields.get("framework", "pytorch") == name for fields in SHAPES.values())
    assert has_shape, f"tests/shapes.py: a {name} job, from which its golden file is made"
    rights = (ROOT / "manifests" / "base" / "rights" / "roles.yaml").read_text()
    assert kind.plural in rights, (
        f"manifests/base/rights/roles.yaml: the right to make {kind.plural}"
    )
    page = (ROOT / "docs" / "reference" / "frameworks.md").read_text()
    assert f"| `{name}` | {kind.name}" in page, f"docs/reference/frameworks.md: a row for {name}"


def test_a_kind_is_read_by_the_first_framework_that_makes_it():
    assert of_kind("PyTorchJob") is FRAMEWORKS["pytorch"]
    assert of_kind("TrainJob") is None
    assert {"PyTorchJob", "TFJob", "MPIJob", "TrainJob"} <= set(frameworks.KINDS)


@pytest.mark.parametrize(
    ("kind", "named", "name"),
    [
        ("PyTorchJob", "custom", "custom"),
        ("PyTorchJob", None, "pytorch"),
        ("PyTorchJob", "of-a-package-that-is-gone", "pytorch"),
        ("TFJob", "custom", "tensorflow"),
    ],
)
def test_a_job_is_of_the_framework_that_its_manifest_names(kind, named, name):
    annotations = {"annotations": {"trireme.dev/framework": named}} if named else {}
    found = framework_of({"kind": kind, "metadata": annotations})
    assert found is FRAMEWORKS[name]


@pytest.mark.parametrize(
    ("kind", "spec", "annotations", "least"),
    [
        ("PyTorchJob", {"elasticPolicy": {"minReplicas": 2}}, {}, 2),
        ("PyTorchJob", {}, {}, None),
        ("TFJob", {}, {}, None),
        ("TrainJob", {}, {"trireme.dev/least-replicas": "3"}, 3),
        ("TrainJob", {}, {}, None),
    ],
)
def test_how_many_replicas_of_a_job_have_to_run(kind, spec, annotations, least):
    job = {"kind": kind, "spec": spec, "metadata": {"annotations": annotations}}
    assert least_replicas(job) == least
