"""``trireme job preflight``."""

import shutil
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.description import at_one_commit, described
from trireme.cli.job.options import File, Isolated, Local, Operator, refuse_other_places
from trireme.cli.job.places import jobs_home, printer
from trireme.cli.target import Workspace
from trireme.errors import TriremeError
from trireme.plain import plain
from trireme.terminal.tables import table
from trireme.text.say import say

if TYPE_CHECKING:
    from trireme.observers.preflight.report import Report


def preflight(
    file: File = None,
    name: Annotated[str, typer.Option(help="Name of the job.")] = "",
    local: Local = False,
    isolated: Isolated = False,
    operator: Operator = "",
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Test whether the replicas of a job reach each other, how fast, their disks and versions."""
    from trireme.runner import preflight as alone

    refuse_other_places(local, isolated, operator, namespace, context)
    there = partial(connect, namespace, context, stays=True)
    given = described(
        file,
        workspace,
        here=local,
        connect=None if local else there,
        name=name,
        operator=operator,
    )
    job = alone.described(given)
    if local:
        from trireme.runner.local import jobs

        jobs.check(jobs_home(), job)
        with jobs.make_directory(jobs_home(), job.name) as directory:
            try:
                _show(alone.run_here(job, directory, printer(), isolated=isolated))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        return

    from trireme.manifests.references import references
    from trireme.runner.cluster import checks
    from trireme.runner.cluster.operators import manifest_of

    cluster = there()
    manifest = manifest_of(cluster, at_one_commit(job))
    checks.require_references(cluster, *references(manifest))
    _show(alone.run_there(job, manifest, cluster, printer(), say))


def _show(report: "Report") -> None:
    """Prints what a preflight has found.

    Raises:
        PreflightFailed: The job must not train.
        TriremeError: There is no result.
    """
    from trireme.observers.preflight.report import HEADINGS, figures
    from trireme.observers.preflight.report import table as rows_of

    content = report.content
    if not content:
        raise TriremeError("the preflight has no result; what its replicas printed says why")
    table(HEADINGS, rows_of(content))
    for name, value in figures(content).items():
        typer.echo(f"{name.partition('/')[2].replace('_', ' ')}: {value:.3g}")
    if report.failure:
        raise report.failure
    for problem in report.problems:
        typer.echo(f"warning: {plain(problem['sentence'])}")
