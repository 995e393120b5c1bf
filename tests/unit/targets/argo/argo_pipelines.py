"""Pipelines that use what kfp has, and write down what each step was given."""

from typing import NamedTuple

from kfp import dsl

from trireme import steps

HERE = dsl.WORKSPACE_PATH_PLACEHOLDER

WITH_WORKSPACE = dsl.PipelineConfig(
    workspace=dsl.WorkspaceConfig(
        size="1Gi",
        kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
    )
)

component = dsl.component(base_image="python:3.11", install_kfp_package=False)


@component
def note(
    who: str,
    workspace: str,
    text: str = "",
    number: int = 0,
    share: float = 0.0,
    flag: bool = False,
    things: list = [],  # noqa: B006
    table: dict = {},  # noqa: B006
) -> NamedTuple("Outputs", text=str, number=int, share=float, flag=bool, things=list, table=dict):
    """Writes down what it is given, and returns it."""
    import json
    from pathlib import Path

    given = [text, number, share, flag, things, table]
    place = Path(workspace, "notes")
    place.mkdir(exist_ok=True)
    assert not (place / who).exists(), f"{who} has run already"
    (place / who).write_text(json.dumps(given, sort_keys=True))
    return text, number, share, flag, things, table


@component
def say(who: str, workspace: str, text: str) -> str:
    """Writes down a text, and returns it."""
    from pathlib import Path

    place = Path(workspace, "notes")
    place.mkdir(exist_ok=True)
    with (place / who).open("a") as file:
        file.write(text)
    return text


@component
def make(text: str, made: dsl.Output[dsl.Model], data: dsl.Output[dsl.Dataset]) -> str:
    """Makes artifacts with metadata."""
    from pathlib import Path

    Path(made.path).write_text(f"a model of {text}")
    made.metadata["of"] = text
    made.metadata["nested"] = {"b": [1.5, None], "a": "{{x}}"}
    Path(data.path).mkdir()
    Path(data.path, "part").write_text(f"data of {text}")
    return text


@component
def look(
    who: str,
    workspace: str,
    model: dsl.Input[dsl.Artifact],
    data: dsl.Input[dsl.Dataset] = None,
) -> str:
    """Writes down what artifacts it is given."""
    import json
    from pathlib import Path

    place = Path(workspace, "notes")
    place.mkdir(exist_ok=True)
    said = [type(model).__name__, model.name, model.metadata, Path(model.path).read_text()]
    said.append(Path(data.path, "part").read_text() if data else None)
    (place / who).write_text(json.dumps(said, sort_keys=True))
    return model.metadata.get("of", "")


@component
def together(
    who: str,
    workspace: str,
    models: dsl.Input[list[dsl.Model]],
    texts: list,
) -> int:
    """Writes down what has come together of a loop."""
    import json
    from pathlib import Path

    read = [[model.metadata, Path(model.path).read_text()] for model in models]
    (Path(workspace, "notes") / who).write_text(json.dumps([texts, read], sort_keys=True))
    return len(texts)


@component
def last(who: str, workspace: str, status: dsl.PipelineTaskFinalStatus) -> None:
    """Writes down how what came before has ended."""
    from pathlib import Path

    place = Path(workspace, "notes")
    place.mkdir(exist_ok=True)
    (place / who).write_text(status.state)


@component
def fails(workspace: str, times: int = 1000) -> str:
    """Fails some times."""
    from pathlib import Path

    tries = Path(workspace, "tries")
    with tries.open("a") as file:
        file.write("x")
    if tries.stat().st_size <= times:
        raise SystemExit(3)
    return "done"


@dsl.pipeline(name="values", pipeline_config=WITH_WORKSPACE)
def values(
    text: str = "a {{b}} of $(HOME)",
    number: int = 3,
    share: float = 0.25,
    flag: bool = True,
    things: list = [1.5, "two", {"three": ["$(HOME)"]}],  # noqa: B006
    table: dict = {"b": {"a": {"{{": "}}"}}, "a": []},  # noqa: B006
) -> None:
    """Values of every kind, from the run to a step, and from step to step."""
    first = note(
        who="first",
        workspace=HERE,
        text=text,
        number=number,
        share=share,
        flag=flag,
        things=things,
        table=table,
    )
    outputs = first.outputs
    note(
        who="second",
        workspace=HERE,
        text=outputs["text"],
        number=outputs["number"],
        share=outputs["share"],
        flag=outputs["flag"],
        things=outputs["things"],
        table=outputs["table"],
    )
    note(who="third", workspace=HERE, text="a {{constant}} of $(HOME)", things=[{"a": {"b": {}}}])
    say(who="fourth", workspace=HERE, text=f"{text} and {outputs['text']}, {outputs['flag']}")
    note(who="fifth", workspace=HERE)


@dsl.pipeline(name="choices", pipeline_config=WITH_WORKSPACE)
def choices(side: str = "tails", number: int = 7) -> None:
    """Conditions, and what comes of the branch that was taken."""
    tossed = say(who="tossed", workspace=HERE, text=side)
    with dsl.If(tossed.output == "heads"):
        heads = say(who="heads", workspace=HERE, text="it was heads")
    with dsl.Elif(tossed.output == "tails"):
        tails = say(who="tails", workspace=HERE, text=f"it was {tossed.output}")
    with dsl.Else():
        other = say(who="edge", workspace=HERE, text="it was the edge")
    chosen = dsl.OneOf(heads.output, tails.output, other.output)
    say(who="chosen", workspace=HERE, text=chosen)
    with dsl.If(number > 5):
        say(who="large", workspace=HERE, text="large")
        with dsl.If(side != "tails"):
            say(who="never", workspace=HERE, text="never")


@dsl.pipeline(name="inner")
def inner(workspace: str, text: str = "by default") -> str:
    """A pipeline that is a step of others."""
    one = say(who=f"inner {text}", workspace=workspace, text=text)
    return say(who=f"inner of {text}", workspace=workspace, text=one.output).output


@dsl.pipeline(name="loops", pipeline_config=WITH_WORKSPACE)
def loops(
    names: list = ["a", "{{b}}", "c 'd'", '{"e": "<\\u003c"}'],  # noqa: B006
) -> None:
    """Loops over constants, parameters and outputs, in each other, and what comes together."""
    with dsl.ParallelFor(names, parallelism=2) as name:
        made = make(text=name)
        with dsl.ParallelFor(["$1", "{{2}}"]) as number:
            say(who=number, workspace=HERE, text=number)
        inner(workspace=HERE, text=name)
    together(
        who="together",
        workspace=HERE,
        models=dsl.Collected(made.outputs["made"]),
        texts=dsl.Collected(made.outputs["Output"]),
    )
    with dsl.ParallelFor(
        [{"who": "p", "text": "{{1}}"}, {"who": "q", "text": '"<\\u003c"'}]
    ) as pair:
        say(who=pair.who, workspace=HERE, text=pair.text)


@dsl.pipeline(name="deeper", pipeline_config=WITH_WORKSPACE)
def deeper(names: list = ["a", "b"], nothing: list = []) -> None:  # noqa: B006
    """A loop in a loop, and one over nothing."""
    with dsl.ParallelFor(names) as name, dsl.ParallelFor(["1", "2"]) as number:
        say(who=number, workspace=HERE, text=name)
        made = make(text=number)
        look(who=name, workspace=HERE, model=made.outputs["made"])
    with dsl.ParallelFor(nothing) as none:
        never = say(who="never", workspace=HERE, text=none)
    note(who="of nothing", workspace=HERE, things=dsl.Collected(never.output))


@dsl.pipeline(name="artifacts", pipeline_config=WITH_WORKSPACE)
def artifacts(text: str = "{{x}}") -> None:
    """Artifacts with metadata, one that is imported, and one that is not given."""
    made = make(text=text)
    look(who="both", workspace=HERE, model=made.outputs["made"], data=made.outputs["data"])
    look(who="one", workspace=HERE, model=made.outputs["made"])


@dsl.pipeline(name="failing", pipeline_config=WITH_WORKSPACE)
def failing() -> None:
    """A failure, what runs all the same, and what does not."""
    ended = last(who="exit", workspace=HERE)
    with dsl.ExitHandler(ended):
        failed = fails(workspace=HERE)
        say(who="never", workspace=HERE, text=failed.output)


@dsl.pipeline(name="retried", pipeline_config=WITH_WORKSPACE)
def retried() -> None:
    """A step that succeeds at its third try."""
    done = fails(workspace=HERE, times=2).set_retry(3)
    say(who="done", workspace=HERE, text=done.output)


@component
def is_drained(workspace: str) -> str:
    """Is ended by SIGTERM, as where its node is drained, some times."""
    import os
    import signal
    from pathlib import Path

    tries = Path(workspace, "drained")
    with tries.open("a") as file:
        file.write("x")
    if tries.stat().st_size <= 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return "done"


@dsl.pipeline(name="drained", pipeline_config=WITH_WORKSPACE)
def drained() -> None:
    """A step whose pod is lost twice, and one that fails."""
    done = is_drained(workspace=HERE)
    said = say(who="done", workspace=HERE, text=done.output)
    fails(workspace=HERE).after(said)


@component
def count(workspace: str, things: list) -> int:
    """Records how many things there are."""
    from trireme.tracked_step import step
    from trireme.tracking import journal

    with step("count", workspace):
        journal.log_params({"things": len(things), "empty": not things})
        journal.log_metrics({"count": float(len(things))})
        journal.log_tags({"kind": "counted"})
        return len(things)


@dsl.pipeline(name="recorded", pipeline_config=WITH_WORKSPACE)
def recorded(
    text: str = 'it\'s {{"two"}} $(HOME)',
    things: list = ["a", {"b": False}],  # noqa: B006
    share: float = 0.0,
    flag: bool = True,
    table: dict = {},  # noqa: B006
    experiment: str = "records",
    webhook_secret: str = "",
) -> None:
    """A step that records something, and the last one."""
    with steps.finishing("recorded", webhook_secret):
        count(workspace=HERE, things=things)
