"""The beginning of ``trireme init``: a copy of an example, or a trireme.yaml beside a program."""

import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import trireme
from trireme.errors import InputError
from trireme.files.whole_file import write_whole
from trireme.pipeline import saved
from trireme.pipeline.program import is_program, program_of

_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_COMMANDS = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("train.py", "main.py", "run.py")  # which come first where there are several
DATA = ("data", "dataset", "datasets", "input")  # folders that may hold a program's data


class Begun(NamedTuple):
    """What was made, in a person's words, and what to type next."""

    lines: list[str]
    commands: list[str]


def examples() -> dict[str, str]:
    """Returns the titles of all examples by their names."""
    return {
        page.parent.name: _first(_TITLE, page.read_text())
        for page in sorted(_folder().glob("*/README.md"))
    }


def copied(name: str, to: Path) -> Begun:
    """Copies an example into a folder, which is new or empty."""
    there = examples()
    if name not in there:
        raise InputError(f"--example {name!r}: must be one of {', '.join(there)}")
    if to.exists() and not (to.is_dir() and not any(to.iterdir())):
        raise InputError(f"{to}: is there already, and is not overwritten; name another folder")
    try:
        shutil.copytree(_folder() / name, to, dirs_exist_ok=True)
    except OSError as error:
        raise InputError(f"{to}: cannot be written: {error}") from None
    page = (to / "README.md").read_text()
    lines = [line for block in _COMMANDS.findall(page) for line in block.splitlines()]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return Begun(
        [f"{to}: {there[name]}; README.md there says more"],
        [f"cd {shlex.quote(str(to))}", *commands],
    )


def written(folder: Path) -> Begun:
    """Writes a trireme.yaml for the program of a folder, with its data if they are beside it."""
    file = folder / saved.FILE
    if file.exists():
        raise InputError(f"{file}: is there already, and is not overwritten")
    program = _program(folder)
    found = program_of(str(program))
    assert found
    data = next((each for each in DATA if (folder / each).is_dir()), "")
    framework = "TensorFlow" if found.pipeline.startswith("tensorflow") else "PyTorch, or any other"
    named = "@code, @data" if data else "@code"
    text = f"# What 'trireme' knows by name here: {named}.\ncode:\n  code: {{url: ./}}\n"
    if data:
        text += f"datasets:\n  data: {{uri: ./{data}}}\n"
    try:
        write_whole(file, text)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error}") from None
    how = f"trireme run {shlex.quote(program.name)}"
    words = f"{how} --data @data" if data else f"{how} --data FOLDER"
    return Begun(
        [
            f"{file}: names the code" + (f", and the folder {data} as @data" if data else ""),
            f"{program}: {framework}; the pipeline {found.pipeline} trains with it",
        ],
        [
            *([f"cd {shlex.quote(str(folder))}"] if folder != Path() else []),
            words,
            words.replace("run", "plan", 1) + " --target kfp --no-check",
        ],
    )


def _program(folder: Path) -> Path:
    """Returns the training program of a folder."""
    programs = []
    for file in sorted(folder.glob("*.py")):
        try:
            if is_program(file) and "__main__" not in file.name:
                programs.append(file)
        except SyntaxError:
            continue
    by_name = {file.name: file for file in programs}
    if chosen := next((by_name[name] for name in PROGRAMS if name in by_name), None):
        return chosen
    if len(programs) == 1:
        return programs[0]
    if programs:
        raise InputError(
            f"{folder}: there are several programs, {', '.join(by_name)}, and none is called "
            f"{' or '.join(PROGRAMS)}; 'trireme run FILE.py' runs any of them"
        )
    raise InputError(
        f"{folder}: there is no training program, a file such as train.py; "
        "'trireme init --example tabular-csv' copies one"
    )


def _folder() -> Path:
    """Returns where the examples are: in the wheel beside the modules, else at the tree's top."""
    here = Path(trireme.__file__).parent
    return next(each / "examples" for each in (here, here.parent) if (each / "examples").is_dir())


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
