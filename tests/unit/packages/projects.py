"""Projects, and wheels, that packages are tested with."""

import zipfile

from trireme.packages.present import Present

THERE = Present({"torch==2.13.0+cpu": "", "tqdm==4.66.0": "", "tensorflow-cpu==2.21.0": ""})

PROJECT = """
[project]
name = "mine"
version = "1"
dependencies = ["small"]
[project.optional-dependencies]
train = ["big"]
Every_One = ["mine[train]"]
odd = ["setup.py"]
[dependency-groups]
dev = ["grouped", {include-group = "More"}]
more = ["further"]
own = ["mine[train]"]
odd = [{include-group = "dev"}, "Pipfile"]
"""

DYNAMIC = '[project]\nname = "mine"\nversion = "1"\ndynamic = ["dependencies"]\n'

BACKEND = """
import zipfile
from base64 import b64encode

def build_wheel(directory, settings=None, metadata=None):
    name = "mine-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("mine.py", "")
        about = "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n"
        wheel.writestr("mine-1.dist-info/METADATA", about)
        wheel.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.dist-info/RECORD", "")
    return name
"""


def write_wheel(folder, name, *needs):
    """Writes a wheel of a package with one module."""
    folder.mkdir(parents=True, exist_ok=True)
    about = [f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0", *needs]
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", "\nRequires-Dist: ".join(about) + "\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
