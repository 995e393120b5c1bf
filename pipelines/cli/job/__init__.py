"""The command line of training jobs without a pipeline: ``trireme job``."""

import typer

from trireme.pipelines.cli.job import advise, change, look, preflight, submit

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="One training job without a pipeline, on this machine or on a cluster.",
)

app.command()(submit.submit)
app.command()(preflight.preflight)
app.command()(submit.render)
app.command()(submit.schema)
app.command(name="list")(look.list_jobs)
app.command()(look.status)
app.command()(look.logs)
app.command()(look.top)
app.command(name="tensorboard")(look.open_tensorboard)
app.command(name="exec")(change.exec_in_replica)
app.command()(change.scale)
app.command()(change.cancel)
app.command()(change.delete)
app.command()(advise.advise)
