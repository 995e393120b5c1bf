"""Imports between folders point one way: no folder imports itself in a circle."""

import ast
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BESIDE = ("components", "pipelines", "trainers")
"""Parts of trireme that are folders at the top of the tree, not in trireme/."""


def files(root):
    """Yields our modules, each with the names by which it is imported below trireme."""
    for top in ("trireme", *BESIDE):
        for file in sorted((root / top).rglob("*.py")):
            inner = file.relative_to(root / top).with_suffix("").parts
            parts = inner if top == "trireme" else (top, *inner)
            if top == "trireme" and inner[0] in BESIDE:  # a link
                continue
            yield file, parts


def graph(root):
    """Returns which folders, and modules beside them, import which others, and by which lines."""
    arrows = defaultdict(lambda: defaultdict(list))
    for file, (here, *_) in files(root):
        for line, (there, *_) in imported(file):
            if here != there:
                arrows[here][there].append(f"{file.relative_to(root)}:{line}")
    return arrows


def imported(file):
    """Yields the lines on which a file imports something of ours, wherever in it, and what.

    What is imported for type checkers alone is not: nothing is loaded then.
    """
    tree = ast.parse(file.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [[*node.module.split("."), alias.name] for alias in node.names]
        else:
            continue
        for top, *inner in modules:
            if top == "trireme" and inner:
                yield node.lineno, inner


def circles(arrows):
    """Returns a shortest circle through each folder that is in one."""
    found = {}
    for start in sorted(arrows):
        paths, seen = [[start]], {start}
        while paths and start not in found:
            path = paths.pop(0)
            for following in sorted(arrows.get(path[-1], ())):
                if following == start:
                    found[start] = [*path, start]
                elif following not in seen:
                    seen.add(following)
                    paths.append([*path, following])
    return list(found.values())


def test_no_folder_imports_itself_in_a_circle():
    arrows = graph(ROOT)
    found = circles(arrows)
    assert not found, "\n".join(
        f"{' -> '.join(one)}: " + ", ".join(arrows[here][there][0] for here, there in pairwise(one))
        for one in found
    )


LAYERS = [
    {"__main__"},
    {"cli"},
    {"targets"},
    {
        *("compiling", "doctor", "parameters", "pipeline", "pipelines", "planning"),
        *("schedules", "steps"),
    },
    {"components"},
]
"""Each imports from itself and from those after it; all else is below, the work of the steps."""


def test_imports_lead_down():
    def layer(name):
        return next((n for n, names in enumerate(LAYERS) if name in names), len(LAYERS))

    upwards = {
        f"{here} -> {there}: {lines[0]}"
        for here, known in graph(ROOT).items()
        for there, lines in known.items()
        if layer(there) < layer(here)
    }
    assert not upwards


def test_the_command_line_names_no_place_where_pipelines_run():
    for file in (ROOT / "trireme" / "cli").glob("*.py"):
        for line, module in imported(file):
            is_of_one = module[0] == "targets" and module[1] in ("local", "kubeflow", "argo")
            assert not is_of_one, f"{file.name}:{line}"


@pytest.mark.parametrize("statement", ["from trireme import b", "import trireme.b.c"])
def test_a_circle_is_found_also_inside_of_a_function(tmp_path, statement):
    for name, text in {
        "trireme/a/x": f"def f():\n    {statement}\n",
        "trireme/b/__init__": "",
        "trireme/b/c": "from trireme.pipelines.d import e\n",
        "pipelines/d": "from trireme.a.x import f\n",
    }.items():
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert ["a", "b", "pipelines", "a"] in circles(graph(tmp_path))
