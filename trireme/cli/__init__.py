"""The command line: one file for each group of commands."""

from trireme.cli.app import main

__all__ = ["main"]
