"""Trains with a wheel or an sdist in an empty environment: ``try_dist.py FILE``."""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

WORDS = ["run", "pytorch-training", "-p", "workers=1", "-p", "min_accuracy=0.1"]


def main() -> int:
    """Returns the status of the training, or of what failed before it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--constraint", type=Path, help="versions to install")
    options = parser.parse_args()
    held = ["--constraint", str(options.constraint.resolve())] if options.constraint else []
    with tempfile.TemporaryDirectory(prefix="trireme-dist-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        bin = place / "venv" / "bin"
        # No variable of the machine may bring the tree, or an MLflow, in reach.
        clean = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("PYTHON", "MLFLOW_", "TRIREME_", "VIRTUAL_ENV"))
        } | {"TRIREME_HOME": str(place / "home"), "PATH": f"{bin}:{os.environ['PATH']}"}
        for command in (
            [bin / "pip", "install", "--quiet", *held, f"{options.file.resolve()}[pytorch]"],
            [bin / "pip", "check"],
            [bin / "trireme", "--version"],
            [bin / "trireme", "init", "--example", "tabular-csv"],
            [bin / "trireme", *WORDS, "-p", 'args=["--epochs", "1"]'],
            [bin / "trireme", "list"],
        ):
            print("$", *command, flush=True)
            status = subprocess.run(command, cwd=place, env=clean).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
