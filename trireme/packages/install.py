"""Install what a run's code requires, beside what is there: resolved, recorded, and built once."""

import hashlib
import os
import re
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, canonicalize_version

from trireme.credentials import secrets
from trireme.data.lock import locked
from trireme.errors import InputError
from trireme.files.home import home, in_a_pod
from trireme.files.whole_file import write_whole
from trireme.files.workspace import written_whole
from trireme.packages import present, requirements
from trireme.packages.of_the_code import OfTheCode
from trireme.packages.present import Present
from trireme.packages.use import AGAIN, link_of
from trireme.packages.uv import PURPOSE, NotBuilt, Uv
from trireme.text.say import say
from trireme.tracking import journal

TAG = "packages"
"""The tag of a run with the hash of its lock."""

BUILD_OUTPUT = "build.log"
"""All that was said of a package that could not be built, in the workspace and in MLflow."""

_PLATFORM = f"Python {requirements.PYTHON} on {sysconfig.get_platform()}"
_LOCK = re.compile(r"(?:--.*\n)*# Python [\d.]+ on .")
_SITE = f'''"""Has Python read the .pth files of this folder, and says for which Python it is."""

import pathlib
import site
import sys

site.addsitedir(str(pathlib.Path(__file__).parent))
if "%d.%d" % sys.version_info[:2] != "{requirements.PYTHON}":
    print(
        "warning: the run's packages were installed for Python {requirements.PYTHON}, and this is",
        "%d.%d:" % sys.version_info[:2],
        "use an image with Python {requirements.PYTHON}, or one that holds the packages",
        file=sys.stderr,
    )
'''
_NO_INDEX = re.compile(r"^--no-index\b", re.MULTILINE)
_HASH = re.compile(r"--hash=(\S+)")
# Either form of a script's start (https://packaging.python.org, entry points), of any Python.
_START = re.compile(rb"\A#!(?:/bin/sh\n'''exec' [^\n]*\n' '''|[^\n]*python[^\n]*)\n")


def install(
    required: Sequence[str],
    code: Path,
    workspace: Path,
    *,
    framework: str = "pytorch",
    secret: str = "",
    commit: str = "",
    git: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Installs packages for all steps of a run, if it requires any.

    Args:
        required: Requirements, and files of the repository that list them.
        code: The directory that files are relative to.
        framework: Whose package the others have to get along with.
        secret: The Secret with the index, see ``uv.KEYS``; empty for none.
        commit: The commit of the code, which packages of its own are of.
        git: Variables by which git opens repositories that are required.
    """
    link = link_of(workspace)
    link.unlink(missing_ok=True)
    if not required:
        if (code / "requirements.txt").is_file():
            option = """-p requirements='["requirements.txt"]'"""
            say(f"the repository has a requirements.txt, which is used only with {option}")
            before = journal.summary_of(workspace, "checkout")
            journal.summarize(", ".join(filter(None, [before, "its requirements.txt not used"])))
        return
    requirements.check(list(required))
    requirements.check_files(required, code)
    requirements.check_names(required, code)
    installed = present.packages(framework)
    uv = Uv(code, secret, installed, git, required)
    recorded = os.environ.get(AGAIN)
    try:
        lock, options = (
            _lock_of(recorded) if recorded else resolved(list(required), framework, installed, uv)
        )
        if any(map(_is_of_the_code, _entries(lock))) and not recorded:
            lock = lock.replace("\n", f", with commit {commit}\n", 1)
        folder = _built(lock, options, workspace / "packages.built" if in_a_pod() else _cache(), uv)
    except NotBuilt as error:
        output = workspace / BUILD_OUTPUT
        output.write_text(error.output)
        journal.log_artifact(output)
        raise
    link.symlink_to(folder)
    _record(lock, folder.name, installed, workspace)


def of_model(files: Path) -> str:
    """Installs what the run of a packaged model required; returns the folder, empty for nothing."""
    from mlflow.models import Model

    file = files / journal.PACKAGES
    # Another file of that name is the user's own.
    if not file.is_file() or not _LOCK.match(file.read_text(errors="replace")):
        return ""
    lock, options = _read(str(file))
    loaded = Model.load(str(files)).flavors.get("python_function", {})
    folder = loaded.get("code") or ""  # a folder in the code, of a model with a loader
    code = files / Path(folder).parts[0] if folder else None
    if not code:
        entries = _entries(lock)
        for entry in filter(_is_of_the_code, entries):
            say(f"{entry.split()[0]} is in the training code, which the model does not carry")
        lock = lock.partition("\n")[0] + "\n"
        lock += "".join(f"{entry}\n" for entry in entries if not _is_of_the_code(entry))
    secret = secrets.given(secrets.DEFAULTS[PURPOSE], PURPOSE)
    uv = Uv(code or files, secret, Present())
    return str(_built(lock, options, _cache(), uv))


def _cache() -> Path:
    return home() / "packages"


def _built(lock: str, options: list[str], cache: Path, uv: Uv) -> Path:
    """Returns the folder with the packages of a lock, which is its hash's, once it is whole."""
    digest = hashlib.sha256(lock.encode()).hexdigest()[:16]
    folder = cache / digest
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{digest}.lock", lambda: say("another run installs the same packages")):
        if not folder.exists():
            with written_whole(folder) as partial:
                _build(lock, options, partial, uv)
        os.utime(folder)  # when it was last used
    return folder


def resolved(
    required: list[str], framework: str, installed: Present, uv: Uv
) -> tuple[str, list[str]]:
    """Returns the lock of what is to be installed, and the options that say from where."""
    with tempfile.TemporaryDirectory(prefix="trireme-") as temporary:
        folder = Path(temporary)
        wheels, constraints, named, compiled = (
            folder / name for name in ("wheels", "held.txt", "named.txt", "found.txt")
        )
        root = present.root(framework)
        lines = requirements.packages(required)
        named.write_text("\n".join([*lines, root if installed.version(root) else ""]))
        constraints.write_text("\n".join(installed.held))
        files, parts = _sources(requirements.lists(required), folder, uv)
        sources = [str(named), *files]
        parts += [] if uv.builds else ["--no-build"]
        no_sources = [f"--no-sources-package={pin.partition('==')[0]}" for pin in installed.held]
        emit_options = ("--emit-index-url", "--emit-find-links", "--emit-build-options")

        def resolve(with_wheels: Present) -> None:
            shutil.rmtree(wheels, ignore_errors=True)
            wheels.mkdir()
            with_wheels.write_wheels(wheels)
            compiled.write_text("\n".join(sorted(installed)))  # which uv prefers
            uv(
                *("pip", "compile", *sources, *uv.logins, *parts, *emit_options, *no_sources),
                *("--constraint", str(constraints)),
                *("--find-links", str(wheels), "--output-file", str(compiled)),
                *("--generate-hashes", "--no-annotate", "--no-header", *with_wheels.options),
            )

        try:
            resolve(installed)
        except NotBuilt:  # its builder is there in another image only
            resolve(installed.without_index())
        entries = _entries(compiled.read_text())
        named_by = [uv.code / source for source in sources if source.endswith((".txt", ".in"))]
        without_index = any(_NO_INDEX.search(file.read_text()) for file in named_by)
        hashes = {pin: some for file in named_by for pin, some in _hashes(file).items()}
    locations = {str(wheels), *map(_shown, uv.urls)}
    options = ["--no-index"] if without_index else []  # of which uv writes nothing
    options += [entry for entry in entries if entry.startswith("--")]
    options = [option for option in options if _shown(option).split()[-1] not in locations]
    pins = [
        entry for entry in entries if not entry.startswith("--") and _pin(entry) not in installed
    ]
    pins = [re.sub(r"^-e +", "", pin) for pin in pins]  # the code of this run is not another's
    for pin in pins:
        requirements.refuse_credentials(pin)
    pins = [_with_hashes(pin, hashes.get(_same(_pin(pin)))) for pin in pins]
    for pin in pins:
        if "file://" in pin and "--hash" not in pin:
            raise InputError(
                f"requirements: {pin!r} is a directory outside of the repository, whose contents "
                "nothing would record; give a wheel of it, or a path in the repository"
            )
    return f"# {_PLATFORM}\n" + "".join(f"{pin}\n" for pin in pins), options


def _sources(lists: list[OfTheCode], folder: Path, uv: Uv) -> tuple[list[str], list[str]]:
    """Returns files that uv resolves, of a uv.lock what it holds, and what is meant of them."""
    files, parts = [], []
    for number, reference in enumerate(lists):
        extras = [f"--extra={extra}" for extra in reference.extras]
        if reference.path.endswith("uv.lock"):
            exported = str(folder / f"exported-{number}.txt")
            of_lock = (
                [f"--only-group={reference.group}"] if reference.group else ["--no-dev", *extras]
            )
            uv(
                *("export", "--frozen", *of_lock, "--no-emit-project", "--no-annotate"),
                *("--no-header", "--output-file", exported),
                *("--project", str(Path(reference.path).parent)),
            )
            files.append(exported)
        elif reference.group:
            parts.append(f"--group={reference.path}:{reference.group}")
        else:
            files.append(reference.path)
            parts += extras
    return list(dict.fromkeys(files)), parts


def _entries(text: str) -> list[str]:
    """Returns the options and pins of a requirements file, with the hashes of each."""
    entries = (entry.rstrip() for entry in re.split(r"\n(?=\S)", text.strip()))
    return [entry for entry in entries if entry and not entry.startswith("#")]


def _pin(entry: str) -> str:
    name, _, version = entry.split()[0].partition("==")
    return f"{canonicalize_name(name)}=={version}"


def _hashes(file: Path) -> dict[str, list[str]]:
    """Returns the hashes that a requirements file, and those that it names, want of packages."""
    by_pin: dict[str, list[str]] = {}
    for line in requirements.lines(file):
        if hashes := _HASH.findall(line):
            by_pin.setdefault(_pin_of_line(line.partition("--hash")[0]), []).extend(hashes)
    return by_pin


def _pin_of_line(line: str) -> str:
    """Returns the pin that a line of a requirements file stands for, as ``_same`` writes it."""
    try:
        requirement = Requirement(line.strip())
    except InvalidRequirement:
        return _same(_pin(line))
    versions = [
        specifier.version
        for specifier in requirement.specifier
        if specifier.operator in ("==", "===")
    ]
    return _same(f"{canonicalize_name(requirement.name)}=={''.join(versions[:1])}")


def _same(pin: str) -> str:
    """Returns the same for 1.0 and 1.0.0."""
    name, _, version = pin.partition("==")
    return f"{name}=={canonicalize_version(version)}"


def _with_hashes(entry: str, accepted: list[str] | None) -> str:
    """Returns a pin with those of its hashes that the repository wants, if it wants any."""
    if accepted is None:
        return entry
    matching = [digest for digest in _HASH.findall(entry) if digest in accepted]
    if not matching:
        raise InputError(
            f"requirements: {entry.split()[0]} has none of the hashes that the repository wants"
        )
    return " \\\n    ".join([entry.split()[0], *(f"--hash={digest}" for digest in matching)])


def _is_of_the_code(entry: str) -> bool:
    return entry.startswith((".", "/", "file:"))


def _build(lock: str, options: list[str], folder: Path, uv: Uv) -> None:
    if _entries(lock):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=uv.code) as file:
            # In there, because what options name is relative to it.
            file.write("".join(f"{option}\n" for option in options) + lock)
            file.flush()
            files = (f"--requirements={name}" for name in (file.name, *uv.logins))
            uv("pip", "install", "--no-deps", "--target", str(folder), *files)
    for script in (folder / "bin").glob("*"):
        _make_movable(script)
    # A package may have files of these names, which are links into uv's cache.
    write_whole(folder / "sitecustomize.py", _SITE)
    options_shown = "".join(f"{_shown(option)}\n" for option in options)
    write_whole(folder / journal.PACKAGES, options_shown + lock)


def _make_movable(script: Path) -> None:
    """Has a script run with the Python that is first in PATH."""
    content = script.read_bytes()
    changed = _START.sub(b"#!/usr/bin/env python3\n", content, count=1)
    if changed != content:
        aside = script.with_name(f"{script.name}.new")  # it may be a link into uv's cache
        aside.write_bytes(changed)
        shutil.copymode(script, aside)
        aside.replace(script)


def _shown(option: str) -> str:
    """Returns an option without the credentials in its URL, which are never recorded."""
    return requirements.without_queries(re.sub(r"://[^/\s]*@", "://", option))


def _lock_of(run_id: str) -> tuple[str, list[str]]:
    """Returns the lock and the options that the run of a training in MLflow has."""
    from trireme.tracking import lineage, store

    store.use()
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        return _read(str(lineage.download_packages(run_id, Path(folder))))


def _read(file: str) -> tuple[str, list[str]]:
    """Returns the lock and the options that a run has recorded."""
    text = Path(file).read_text()
    options = [entry for entry in _entries(text) if entry.startswith("--")]
    lock = "".join(line for line in text.splitlines(True) if not line.startswith("--"))
    if not lock.startswith(f"# {_PLATFORM}"):
        raise InputError(
            f"the run's packages were chosen for {lock.splitlines()[0].lstrip('# ')}, and this is "
            f"{_PLATFORM}"
        )
    return lock, options


def _record(lock: str, digest: str, installed: Present, workspace: Path) -> None:
    names = [_pin(entry) for entry in _entries(lock)]
    instead = [
        f"{pin} ({installed.version(pin.partition('==')[0])})"
        for pin in names
        if installed.version(pin.partition("==")[0])
    ]
    if instead:
        say(f"for the run's programs, in place of what is there: {', '.join(instead)}")
    journal.log_tags({TAG: digest})
    before = journal.summary_of(workspace, "checkout")
    counted = f"{len(names)} {'package' if len(names) == 1 else 'packages'} installed beside it"
    journal.summarize(", ".join(filter(None, [before, counted])))
