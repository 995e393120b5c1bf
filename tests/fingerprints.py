"""The fingerprint of a file or of the files in a directory, however they came there."""

from pathlib import Path

from trireme.data.fingerprint import of_content, of_times
from trireme.data.listing import in_order
from trireme.data.sources.local import files_of


def fingerprint(path: Path, full: bool = False) -> str:
    entries = in_order(files_of(path))
    return of_content(path, entries) if full else of_times(entries)
