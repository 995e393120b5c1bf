"""Pages that commands write."""

from pathlib import Path

from trireme.errors import InputError


def write(page: str, output: Path, name: str) -> Path:
    """Writes a page into a file, or under its name into a folder; returns the file."""
    from trireme.files.whole_file import linked, write_whole

    file = output / name if output.is_dir() else output
    try:
        if file.exists() and not file.is_file():  # such as /dev/stdout
            file.write_text(page, encoding="utf-8")
        else:
            write_whole(linked(file), page)
    except OSError as error:
        raise InputError(f"-o {file}: cannot be written: {error.strerror}") from None
    return file
