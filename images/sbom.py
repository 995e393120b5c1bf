"""Prints what an image holds as a CycloneDX 1.5 document: Debian's packages and Python's.

Format: https://cyclonedx.org/docs/1.5/json/
"""

import importlib.metadata
import json
import subprocess


def debian() -> list[dict[str, str]]:
    """Returns the packages that Debian's package manager has installed."""
    form = "${Package} ${Version} ${Architecture}\n"
    listed = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={form}"], check=True, capture_output=True, text=True
    ).stdout
    return [
        _component(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}")
        for name, version, architecture in map(str.split, listed.splitlines())
    ]


def python() -> list[dict[str, str]]:
    """Returns the distributions that this Python finds."""
    found = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}
    return [
        _component(name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{version}")
        for name, version in sorted(found.items())
    ]


def _component(name: str, version: str, purl: str) -> dict[str, str]:
    return {"type": "library", "name": name, "version": version, "purl": purl}


if __name__ == "__main__":
    components = debian() + python()
    print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "components": components}))
