"""A picture of a run: ``trireme report``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from trireme.cli.runs import RunName
from trireme.cli.target import on_target
from trireme.plain import as_file_name
from trireme.targets.meant import meant

if TYPE_CHECKING:
    from trireme.targets.base import Target

Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="The page, or its folder; default: RUN.html here."
    ),
]


@on_target()
def report(target: "Target", run: RunName = "", output: Output = None) -> None:
    """Write a picture of a run, also of one that failed or is under way: a page of HTML."""
    from trireme.cli import pages
    from trireme.report import page
    from trireme.targets import picturing

    picture = picturing.picture(target, meant(target, run))
    picture.close()
    name = f"{as_file_name(picture.name, 'run')}.html"
    file = output or Path(name)
    file = file / name if file.is_dir() else file
    picture.links = {what: _as_seen_from(file, url) for what, url in picture.links.items()}
    typer.echo(pages.write(page.render(picture), file, name))


def _as_seen_from(page: Path, link: str) -> str:
    """Returns a link of a page; one to a file of this machine from where the page lies."""
    if not Path(link).is_absolute():
        return link
    if page.exists() and not page.is_file():
        return Path(link).as_uri()
    return quote(os.path.relpath(link, page.absolute().parent))
