"""The command line of training jobs without a pipeline: ``trireme job``."""

from typing import ClassVar

from trireme.cli.lazy import Lazy, LazyGroup, application


class _Jobs(LazyGroup):
    lazy: ClassVar = {
        "submit": Lazy(
            "job.submit:submit", "Run a training job on a cluster or, with --local, here."
        ),
        "preflight": Lazy(
            "job.preflight:preflight", "Test whether the replicas of a job reach each other."
        ),
        "render": Lazy("job.submit:render", "Show a job's manifest, for kubectl or a repository."),
        "convert": Lazy(
            "job.convert:convert", "Show a job of the training operator as a TrainJob."
        ),
        "schema": Lazy("job.submit:schema", "Show the JSON schema of a job's YAML, for editors."),
        "list": Lazy("job.look:list_jobs", "List the jobs there are."),
        "status": Lazy(
            "job.look:status", "Show a job, its replicas, and why they are in their states."
        ),
        "explain": Lazy(
            "explain:explain_job", "Say why a job waits or failed, and what to do next."
        ),
        "logs": Lazy(
            "job.look:logs", "Show what a job's replicas print, each line with its replica."
        ),
        "top": Lazy("job.look:top", "Show what each replica of a running job uses."),
        "tensorboard": Lazy(
            "job.look:open_tensorboard", "Open TensorBoard with what a job's program has written."
        ),
        "exec": Lazy(
            "job.change:exec_in_replica", "Run a command in a running replica on a cluster."
        ),
        "scale": Lazy("job.change:scale", "Change the number of workers of a running elastic job."),
        "cancel": Lazy("job.change:cancel", "Stop a job and keep its record."),
        "delete": Lazy(
            "job.change:delete", "Delete a job and its records; stop it first if it runs."
        ),
        "advise": Lazy(
            "job.advise:advise", "Run a job here for a minute and say what to change in it."
        ),
        "plan": Lazy(
            "plan:plan_job", "Show what a job would create, request and cost, and check it."
        ),
    }
    sections: ClassVar = {
        "Start": ("submit", "plan", "preflight", "advise"),
        "Look": ("list", "status", "logs", "explain", "top", "tensorboard"),
        "Change": ("exec", "scale", "cancel", "delete"),
        "Files": ("render", "convert", "schema"),
    }


app = application(cls=_Jobs, no_args_is_help=True)


@app.callback()
def job() -> None:
    """One training job without a pipeline, on this machine or on a cluster."""
