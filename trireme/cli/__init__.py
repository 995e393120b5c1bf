"""The command line: one file for each group of commands."""

from trireme.pipelines.cli.app import main

__all__ = ["main"]
