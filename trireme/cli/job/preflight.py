"""``trireme job preflight``."""

import shutil
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.answers.plans import PreflightProblem, PreflightResult
from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.description import at_one_commit, described
from trireme.cli.job.options import File, Isolated, Local, Operator, refuse_other_places
from trireme.cli.job.places import printer
from trireme.cli.output import Form, Output, show
from trireme.cli.target import Workspace
from trireme.errors import TriremeError
from trireme.files.home import jobs_home
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
    output: Output = Form.TEXT,
) -> None:
    """Test whether the replicas of a job reach each other, how fast, their disks and versions."""
    from trireme.runner import preflight as alone

    refuse_other_places(local, isolated, operator, namespace, context)
    to_cluster = partial(connect, namespace, context, stays=True)
    described_job = described(
        file,
        workspace,
        here=local,
        connect=None if local else to_cluster,
        name=name,
        operator=operator,
    )
    job = alone.described(described_job)
    on_line = printer() if output is Form.TEXT else _say_line
    if local:
        from trireme.runner.local import jobs

        jobs.check(jobs_home(), job)
        with jobs.make_directory(jobs_home(), job.name) as directory:
            try:
                _show(alone.run_here(job, directory, on_line, isolated=isolated), output)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        return

    from trireme.manifests.references import references
    from trireme.runner.cluster import checks
    from trireme.runner.cluster.operators import manifest_of

    cluster = to_cluster()
    manifest = manifest_of(cluster, at_one_commit(job))
    checks.require_references(cluster, *references(manifest))
    _show(alone.run_there(job, manifest, cluster, on_line, say), output)


def _say_line(replica: str, line: str) -> None:
    say(f"[{replica}] {line}")


def _show(report: "Report", form: Form) -> None:
    """Shows what a preflight has found.

    Raises:
        PreflightFailed: The job must not train.
        TriremeError: There is no result.
    """
    from trireme.observers.preflight.report import HEADINGS, figures
    from trireme.observers.preflight.report import table as rows_of

    content = report.content
    if not content:
        raise TriremeError("the preflight has no result; what its replicas printed says why")
    result = PreflightResult(
        failed=report.failure is not None,
        figures=figures(content),
        replicas=[dict(zip(HEADINGS, row, strict=True)) for row in rows_of(content)],
        problems=[
            PreflightProblem(sentence=plain(problem["sentence"]), fatal=bool(problem["fatal"]))
            for problem in report.problems
        ],
    )
    show(result, form, _draw)
    if report.failure:
        raise report.failure


def _draw(result: PreflightResult) -> None:
    from trireme.observers.preflight.report import HEADINGS

    table(HEADINGS, [list(replica.values()) for replica in result.replicas])
    for name, value in result.figures.items():
        typer.echo(f"{name.partition('/')[2].replace('_', ' ')}: {value:.3g}")
    for problem in () if result.failed else result.problems:
        typer.echo(f"warning: {problem.sentence}")
