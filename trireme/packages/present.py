"""The packages that are there already, which a run's own are chosen beside."""

import importlib.metadata
import re
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from packaging import tags
from packaging.utils import canonicalize_name

from trireme.errors import TriremeError
from trireme.files.home import in_a_pod

LOCKS = Path("/usr/share/trireme/locks")
"""Where Trireme's images list the packages of each of them."""

IMAGES_PYTHON = "3.11.2"  # Debian 12's

_SOURCES = Path(__file__).resolve().parents[2] / "images/locks"
"""Where a checkout of Trireme, from which the images are built, has them."""

_FRAMEWORKS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "jax": ("jax", "jax"),
    "xgboost": ("xgboost", "xgboost"),
}
"""By framework, its package and the list of its image; others have PyTorch's."""

HELD = ("torch", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "xgboost", "xgboost-cpu")
"""Packages that are never installed beside those that are there."""

_SAME = {"tensorflow-cpu": "tensorflow", "xgboost-cpu": "xgboost"}
"""Names of other builds, which stand for the ones that programs require."""

_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


class Present(dict[str, str]):
    """What METADATA says of each package that is there, by ``name==version``.

    Attributes:
        tag: The platform of their wheels.
        options: Those of uv that make it resolve for it, where it is not this machine's.
    """

    tag = str(next(tags.sys_tags()))
    options: tuple[str, ...] = ()

    @property
    def held(self) -> list[str]:
        """Those that no other version takes the place of."""
        return [pin for pin in self if pin.partition("==")[0] in HELD]

    def version(self, name: str) -> str:
        """Returns the version of a package; empty where it is not there."""
        return next((pin.partition("==")[2] for pin in self if pin.startswith(f"{name}==")), "")

    def without_index(self) -> "Present":
        """Returns those that no index has: in a version of this machine's, or never replaced."""
        pins = [pin for pin in self if pin in self.held or "+" in pin]
        return type(self)({pin: self[pin] for pin in pins})

    def write_wheels(self, directory: Path) -> None:
        """Writes a wheel for each, for a resolver to choose, which leads to what is there."""
        # Whatever a resolver has to build finds its builder so, where that is there.
        site_folders = "".join(f"{sysconfig.get_path(name)}\n" for name in ("purelib", "platlib"))
        for pin, metadata in self.items():
            name, _, version = pin.partition("==")
            stem = f"{name.replace('-', '_')}-{version}"
            # Of this very platform: one of an index for more than that is not preferred to it.
            with zipfile.ZipFile(directory / f"{stem}-{self.tag}.whl", "w") as wheel:
                wheel.writestr(f"{stem}.pth", site_folders)
                wheel.writestr(f"{stem}.dist-info/METADATA", metadata)
                wheel.writestr(f"{stem}.dist-info/WHEEL", f"{_WHEEL}{self.tag}\n")
                wheel.writestr(f"{stem}.dist-info/RECORD", "")


class OfImages(Present):
    """What images hold, for who is not in them; Debian 12 has this Python and this glibc."""

    tag = "cp311-cp311-manylinux_2_36_x86_64"
    options = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_36")


_WHEEL = "Wheel-Version: 1.0\nGenerator: trireme\nRoot-Is-Purelib: false\nTag: "


P = TypeVar("P", bound=Present)


def packages(framework: str) -> Present:
    """Returns what a run of a framework has: here what is installed, there what its image holds."""
    return _with_names(Present(_listed(LOCKS, framework) if in_a_pod() else _of_this_environment()))


def of_image(framework: str) -> OfImages:
    """Returns what the image of a framework holds; nothing where its list is not here."""
    if not (_SOURCES / _list_of(framework)).is_file():
        return OfImages()
    return _with_names(OfImages(_listed(_SOURCES, framework)))


def _with_names(present: P) -> P:
    """Adds the names that programs have for what is there."""
    for build, name in _SAME.items():
        if version := present.version(build):
            present[f"{name}=={version}"] = _metadata(name, version)
    return present


def root(framework: str) -> str:
    """Returns the package that the run's own have to get along with."""
    return _FRAMEWORKS.get(framework, ("torch", ""))[0]


def _of_this_environment() -> Iterator[tuple[str, str]]:
    for distribution in importlib.metadata.distributions():
        if metadata := distribution.read_text("METADATA"):
            name = canonicalize_name(distribution.metadata["Name"])
            yield f"{name}=={distribution.version}", metadata


def _list_of(framework: str) -> str:
    return f"{_FRAMEWORKS.get(framework, ('', 'pytorch-cpu'))[1]}.txt"


def _listed(locks: Path, framework: str) -> Iterator[tuple[str, str]]:
    file = locks / _list_of(framework)
    if not file.is_file():
        raise TriremeError(f"this image has no {file}, which requirements are chosen by")
    for name, version in _PIN.findall(file.read_text()):
        yield f"{name}=={version}", _metadata(name, version)


def _metadata(name: str, version: str) -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
