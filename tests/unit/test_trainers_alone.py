"""components/trainers: a user who copies a folder has all that its programs need."""

import ast
import sys
from pathlib import Path

import pytest

TRAINERS = Path(__file__).resolve().parents[2] / "components" / "trainers"


@pytest.mark.parametrize(
    ("folder", "packages"),
    [
        ("pytorch", {"torch", "mpi4py", "mlflow", "prometheus_client", "PIL"}),
        ("tensorflow", {"tensorflow", "mlflow", "prometheus_client", "PIL"}),
    ],
)
def test_programs_import_nothing_that_is_not_copied_with_them(folder, packages):
    files = list((TRAINERS / folder).glob("*.py"))
    assert files
    known = {file.stem for file in files} | packages | {"numpy"}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            named = [node.module] if isinstance(node, ast.ImportFrom) else []
            named += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            packages_of = {name.partition(".")[0] for name in named}
            assert packages_of <= known | set(sys.stdlib_module_names), file
