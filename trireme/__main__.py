"""The command line: ``python -m trireme``."""

from trireme.pipelines.cli import main

main()
