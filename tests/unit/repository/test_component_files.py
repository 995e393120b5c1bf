"""What lies beside a step's face: its page, and the YAML by which any user of kfp loads it.

Both are made from ``component.py``: make golden.
"""

import importlib
import re
from pathlib import Path

import hera.workflows  # noqa: F401 - whoever loads it has YAML texts of several lines as blocks
import pytest
from kfp import compiler, components
from kfp.dsl import base_component

ROOT = Path(__file__).parents[3]
FACES = sorted(file.parent for file in (ROOT / "components").glob("*/component.py"))
PAGE = """\
# {title}

{about}

{steps}
Any kfp pipeline can load it, with or without Trireme installed:

```python
from kfp import components

{load}
```

The work is in [`trireme/{work}/`](../../trireme/{work}/). `make golden` writes this page.
"""

STEP = """\
## `{name}`

{description}

| input | type | default | |
|---|---|---|---|
{inputs}

| output | type | |
|---|---|---|
{outputs}

Image: `{image}`
"""

WORK = {"checkout": "code", "dataset": "data", "export": "exporting", "training": "runner"}
"""Where the work of a step is that has not the folder of its name."""


def steps_of(folder):
    """Returns the components that a face defines, by name."""
    module = importlib.import_module(f"trireme.components.{folder.name}.component")
    found = [
        each for each in vars(module).values() if isinstance(each, base_component.BaseComponent)
    ]
    return {each.python_func.__name__: each for each in found}


def file_of(folder, name, count):
    return folder / ("component.yaml" if count == 1 else f"{name}.yaml")


def texts(docstring, section):
    """Returns what a docstring says of each name in one of its sections."""
    found = re.search(rf"^ *{section}:\n(.*?)(\n\n|\Z)", docstring, re.M | re.S)
    lines = found[1].split("\n") if found else []
    said, name = {}, ""
    for line in lines:
        if match := re.match(r" {4,12}(\w+): (.*)", line):
            name = match[1]
            said[name] = match[2]
        elif name:
            said[name] += " " + line.strip()
    return {name: text.strip() for name, text in said.items()}


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def kind(spec):
    return spec.type.partition("@")[0].removeprefix("system.")


def described(step):
    """Returns the part of a page about one component."""
    doc = step.python_func.__doc__
    said, left = texts(doc, "Args"), texts(doc, "Returns")
    spec = step.component_spec
    first = re.split(r"\n\s*\n", doc.strip())[0]
    whole = re.search(r"Returns:\n(.*?)(\n\n|\Z)", doc + "\n\n", re.S)
    inputs = [
        row(
            f"`{name}`",
            kind(each),
            "" if each.default is None else f"`{each.default!r}`",
            said.get(name, ""),
        )
        for name, each in (spec.inputs or {}).items()
    ]
    outputs = [
        row(
            f"`{name}`",
            kind(each),
            left.get(name) or said.get(name) or " ".join(whole[1].split()),  # a single one
        )
        for name, each in (spec.outputs or {}).items()
    ]
    return STEP.format(
        name=step.python_func.__name__,
        description=" ".join(first.split()),
        inputs="\n".join(inputs),
        outputs="\n".join(outputs or [row("none", "", "")]),
        image=spec.implementation.container.image,
    )


@pytest.mark.parametrize("folder", FACES, ids=lambda folder: folder.name)
def test_golden_page_and_yaml_of_a_step(folder, golden, tmp_path):
    found = steps_of(folder)
    assert found
    load = []
    for name, step in found.items():
        compiler.Compiler().compile(step, str(tmp_path / "it.yaml"))
        file = file_of(folder, name, len(found))
        golden(str(file), (tmp_path / "it.yaml").read_text())
        load.append(f'{name} = components.load_component_from_file("{file.relative_to(ROOT)}")')
        loaded = components.load_component_from_file(str(file))
        assert loaded.component_spec.inputs.keys() == (step.component_spec.inputs or {}).keys()
    module = importlib.import_module(f"trireme.components.{folder.name}")
    page = PAGE.format(
        title=folder.name,
        about=" ".join(module.__doc__.split()),
        steps="\n".join(map(described, found.values())),
        load="\n".join(load),
        work=WORK.get(folder.name, folder.name),
    )
    golden(str(folder / "README.md"), page)


@pytest.mark.parametrize("folder", FACES, ids=lambda folder: folder.name)
def test_a_step_has_its_face_there_and_nothing_else(folder):
    names = {file.name for file in folder.iterdir() if file.name != "__pycache__"}
    assert {name for name in names if not name.endswith(".yaml")} == {
        "README.md",
        "__init__.py",
        "component.py",
    }
