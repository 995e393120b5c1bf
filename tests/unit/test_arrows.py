"""Imports between folders point one way: no folder imports itself in a circle."""

import ast
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOPS = {"components": "components", "pipelines": "pipelines", "graph": "trireme/graph"}
"""Parts of trireme, and where each is."""


def graph(root):
    """Returns which folders, and modules beside them, import which others, and by which lines."""
    arrows = defaultdict(lambda: defaultdict(list))
    every = ((top, file) for top, place in TOPS.items() for file in (root / place).rglob("*.py"))
    for top, file in sorted(every):
        place = file.relative_to(root / TOPS[top]).with_suffix("")
        for line, module in imported(file, root):
            here, there = folder((top, *place.parts)), folder(module)
            if here != there:
                arrows[here][there].append(f"{file.relative_to(root)}:{line}")
    return arrows


def imported(file, root):
    """Returns the lines on which a file imports something of ours, wherever in it, and what."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [[*node.module.split("."), alias.name] for alias in node.names]
        else:
            continue
        for top, *inner in modules:
            if top == "trireme" and len(inner) > 1 and inner[0] in TOPS:
                yield node.lineno, inner


def folder(parts):
    return "/".join(parts[:2])


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


LAYERS = ["pipelines/cli", "pipelines/targets", "pipelines/", "graph/", "components/"]
"""Each imports from those after it alone."""


def test_imports_lead_down():
    def layer(name):
        return next(number for number, top in enumerate(LAYERS) if name.startswith(top))

    arrows = graph(ROOT)
    upwards = {
        f"{here} -> {there}: {lines[0]}"
        for here, known in arrows.items()
        for there, lines in known.items()
        if layer(there) < layer(here)
    }
    assert not upwards


def test_the_command_line_names_no_place_where_pipelines_run():
    for file in (ROOT / "pipelines" / "cli").glob("*.py"):
        for line, module in imported(file, ROOT):
            is_of_one = module[:2] == ["pipelines", "targets"] and (
                module[2] in ("local", "kubeflow", "argo")
            )
            assert not is_of_one, f"{file.name}:{line}"


@pytest.mark.parametrize(
    "statement", ["from trireme.components import b", "import trireme.components.b.c"]
)
def test_a_circle_is_found_also_inside_of_a_function(tmp_path, statement):
    for name, text in {
        "a/x": f"def f():\n    {statement}\n",
        "b/__init__": "",
        "b/c": "from trireme.components.d import e\n",
        "d": "from trireme.components.a.x import f\n",
    }.items():
        file = tmp_path / "components" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert ["components/a", "components/b", "components/d", "components/a"] in circles(
        graph(tmp_path)
    )
