"""Pipelines whose compiled form asks something of whoever reads it."""

from typing import List, NamedTuple, Optional  # noqa: UP035

from kfp import dsl

from trireme.images import BASE

component = dsl.component(base_image=BASE, install_kfp_package=False)

WITH_WORKSPACE = dsl.PipelineConfig(
    workspace=dsl.WorkspaceConfig(
        size="1Gi",
        kubernetes=dsl.KubernetesWorkspaceConfig(pvcSpecPatch={"accessModes": ["ReadWriteMany"]}),
    )
)


@component
def say(message: str) -> str:
    """Says a text, and returns it."""
    print("SAY", message)
    return message


@component
def show(message: str):
    """Says a text as Python writes it."""
    print("SAY", repr(message))


@component
def number(n: int) -> int:
    """Returns a whole number, and fails at 13."""
    if n == 13:
        raise ValueError("13 is bad")
    print("SAY", n)
    return n


@component
def share(x: float) -> float:
    """Returns a number."""
    return x


@component
def words() -> list[str]:
    """Returns texts."""
    return ["x", "y"]


@component
def rows() -> list[list[str]]:
    """Returns lists of texts."""
    return [["a", "b"], ["c"]]


@component
def cell_of(cell: str, row: list):
    """Says an item, and the list that it is of."""
    print("SAY", cell, "of", row)


@component
def anyway(n: int = 7):
    """Says a number, or its own."""
    print("SAY", n)


@component
def last(word: str, status: dsl.PipelineTaskFinalStatus):
    """Says how the rest has ended; each engine has a word of its own for what went well."""
    print("SAY", word, "failed" if status.state == "FAILED" else "well", status.pipeline_task_name)


@component
def flaky(workspace: str, times: int):
    """Succeeds after it has failed some times."""
    from pathlib import Path

    tries = Path(workspace, "tries")
    with tries.open("a") as output:
        output.write("x")
    print("SAY try", tries.stat().st_size)
    if tries.stat().st_size <= times:
        raise SystemExit(3)


@component
def leave(text: str, out: dsl.Output[dsl.Artifact]) -> str:
    """Leaves a file and its text."""
    from pathlib import Path

    Path(out.path).write_text(text.upper())
    out.metadata["of"] = text
    return text


@component
def read(art: dsl.Input[dsl.Artifact]):
    """Says what is in a file."""
    from pathlib import Path

    print("SAY", Path(art.path).read_text(), art.metadata.get("of"))


@component
def read_all(arts: dsl.Input[list[dsl.Artifact]], texts: list):
    """Says what is in files."""
    from pathlib import Path

    print("SAY", [Path(art.path).read_text() for art in arts], texts)


@component
def odd_numbers(metrics: dsl.Output[dsl.Metrics]) -> float:
    """Measures nothing, and returns infinity."""
    metrics.log_metric("loss", float("nan"))
    return float("inf")


@component
def kinds(a: int, b: float = 0.5) -> NamedTuple("Kinds", sum=float, ok=bool, big=int):
    """Returns a value of each of some types."""
    return a + b, a > 1, 2**53 - 1


@component
def say_kinds(big: int, tiny: float, ok: bool, text: str):
    """Says values of each of some types."""
    print("SAY", repr(big), repr(tiny), repr(ok), text)


@component
def maybe(text: Optional[str] = None, n: Optional[int] = None):  # noqa: UP045
    """Says what may be left out."""
    print("SAY", text, n)


@component
def to_file(text: str, out: dsl.OutputPath(str)):
    """Writes its output itself."""
    from pathlib import Path

    Path(out).write_text(text * 2)


@dsl.pipeline(name="item-in-text")
def item_in_text(items: list = ["A", "B"]):  # noqa: B006
    """An item of a loop, in a text, in an exit handler."""
    with dsl.ExitHandler(last(word="done")), dsl.ParallelFor(items) as item:
        say(message=f"item {item}")


@dsl.pipeline(name="field-in-text")
def field_in_text(things: list = [{"of": "a"}, {"of": "b"}]):  # noqa: B006
    """A field of an item, in a text."""
    with dsl.ParallelFor(things) as thing:
        say(message=f"of {thing.of}")


@dsl.pipeline(name="loop-over-field")
def loop_over_field(things: list = [{"of": "a", "sizes": [1, 2]}]):  # noqa: B006
    """A loop over a field of an item, whose other field is in a text, too."""
    with dsl.ParallelFor(things) as thing, dsl.ParallelFor(thing.sizes) as size:
        say(message=f"{thing.of}: {size}")


@dsl.pipeline(name="nested-items")
def nested_items():
    """A loop over the item of another, and both in a text."""
    with dsl.ParallelFor(rows().output) as row, dsl.ParallelFor(row) as cell:
        say(message=f"cell {cell}")
        cell_of(cell=cell, row=row)


@dsl.pipeline(name="outside-in-text")
def outside_in_text(word: str = "w", on: bool = True):
    """A parameter and an output of outside, in a text in groups in groups."""
    found = words()
    with (
        dsl.ExitHandler(last(word=word)),
        dsl.If(on == True),  # noqa: E712
        dsl.ParallelFor(found.output) as item,
    ):
        say(message=f"{item} {word}")


@dsl.pipeline(name="comparisons")
def comparisons(
    word: str = "it's",
    other: str = "",
    limit: float = 0.5,
    n: int = 2,
    on: bool = False,
):
    """Conditions of every type, on outputs and parameters."""
    text, whole, real = say(message=word), number(n=n), share(x=1.0)
    with dsl.If(text.output == "it's"):
        say(message="quote")
    with dsl.If(text.output == 'a\\b"c\nd'):
        say(message="escapes")
    with dsl.If(text.output == word):
        say(message="same")
    with dsl.If(word != other):
        say(message="differs")
    with dsl.If(real.output > 0):
        say(message="real > 0")
    with dsl.If(real.output >= 1):
        say(message="real >= 1")
    with dsl.If(whole.output < limit):
        say(message="whole < limit")
    with dsl.Else():
        say(message="whole >= limit")
    with dsl.If(whole.output == "2"):
        say(message="whole is text 2")
    with dsl.If(on == True):  # noqa: E712
        say(message="on")
    with dsl.Elif(n > 5):
        say(message="n > 5")
    with dsl.Else():
        say(message="off and small")


@dsl.pipeline(name="fields")
def fields(sites: list = [{"town": "a"}, {"town": "b"}]):  # noqa: B006
    """A condition on a field of an item."""
    with dsl.ParallelFor(sites) as site:
        with dsl.If(site.town == "a"):
            say(message="is a")
        with dsl.Else():
            show(message="is not a")


@dsl.pipeline(name="one-of")
def one_of(side: str = "heads"):
    """The value and the artifact of the branch that was taken."""
    flipped = say(message=side)
    with dsl.If(flipped.output == "heads"):
        heads = leave(text="heads")
    with dsl.Elif(flipped.output == "tails"):
        tails = leave(text="tails")
    with dsl.Else():
        edge = leave(text="edge")
    show(
        message=dsl.OneOf(heads.outputs["Output"], tails.outputs["Output"], edge.outputs["Output"])
    )
    read(art=dsl.OneOf(heads.outputs["out"], tails.outputs["out"], edge.outputs["out"]))


@dsl.pipeline(name="inner-choice")
def inner_choice(side: str = "tails") -> str:
    """A pipeline with branches, to be a step."""
    flipped = say(message=side)
    with dsl.If(flipped.output == "heads"):
        heads = leave(text="h")
    with dsl.Else():
        tails = leave(text="t")
    return dsl.OneOf(heads.outputs["Output"], tails.outputs["Output"])


@dsl.pipeline(name="inner-loop")
def inner_loop(given: list = ["a", "b"]) -> list[str]:  # noqa: B006
    """A pipeline with a loop, to be a step."""
    with dsl.ParallelFor(given) as one:
        said = say(message=one)
    return dsl.Collected(said.output)


@dsl.pipeline(name="of-pipelines")
def of_pipelines():
    """Pipelines as steps, with parameters and their defaults."""
    show(message=inner_choice().output)
    show(message=inner_choice(side="heads").output)
    with dsl.ParallelFor(inner_loop().output) as one:
        show(message=one)


@dsl.pipeline(name="lost-tasks")
def lost_tasks(side: str = "heads"):
    """A group that kfp confuses with one of a pipeline that is a step."""
    flipped = say(message=side)
    with dsl.If(flipped.output == "heads"):
        heads = leave(text="heads")
    with dsl.Else():
        tails = leave(text="tails")
    show(message=dsl.OneOf(heads.outputs["Output"], tails.outputs["Output"]))
    show(message=inner_choice().output)


@dsl.pipeline(name="outer-choice")
def outer_choice(side: str = "heads") -> str:
    """The part of it that can be a pipeline of its own."""
    flipped = say(message=side)
    with dsl.If(flipped.output == "heads"):
        heads = leave(text="heads")
    with dsl.Else():
        tails = leave(text="tails")
    return dsl.OneOf(heads.outputs["Output"], tails.outputs["Output"])


@dsl.pipeline(name="parts")
def parts():
    """The same of two parts."""
    show(message=outer_choice().output)
    show(message=inner_choice().output)


@dsl.pipeline(name="failing")
def failing():
    """A turn that fails, those beside it, and what runs all the same."""
    with dsl.ExitHandler(last(word="done")):
        with dsl.ParallelFor([1, 13, 3]) as n:
            one = number(n=n)
        say(message="never").after(one)


@dsl.pipeline(name="ignoring")
def ignoring():
    """A failure that another does not mind, which has a default for what it lacks."""
    anyway(n=number(n=13).output).ignore_upstream_failure()


@dsl.pipeline(name="retried", pipeline_config=WITH_WORKSPACE)
def retried(times: int = 2):
    """A step that succeeds at its third try, and one after it."""
    tried = flaky(workspace=dsl.WORKSPACE_PATH_PLACEHOLDER, times=times)
    say(message="after").after(tried.set_retry(num_retries=3))


@dsl.pipeline(name="inner-artifacts")
def inner_artifacts(given: list) -> list[dsl.Artifact]:
    """A pipeline that leaves artifacts, to be a step."""
    with dsl.ParallelFor(given) as one:
        left = leave(text=one)
    return dsl.Collected(left.outputs["out"])


@dsl.pipeline(name="collected")
def collected(given: list = ["b", "a", "c"]):  # noqa: B006
    """What comes together of a loop."""
    with dsl.ParallelFor(given, parallelism=2) as one:
        left = leave(text=one)
    read_all(arts=dsl.Collected(left.outputs["out"]), texts=dsl.Collected(left.outputs["Output"]))


@dsl.pipeline(name="collected-of-some")
def collected_of_some(given: list = ["b", "a", "c"]):  # noqa: B006
    """What comes together of turns of which one leaves nothing."""
    with dsl.ParallelFor(given) as one, dsl.If(one != "a"):
        left = leave(text=one)
    read_all(arts=dsl.Collected(left.outputs["out"]), texts=dsl.Collected(left.outputs["Output"]))


@component
def leave_elsewhere(out: dsl.Output[dsl.Artifact]):
    """Leaves a file where it wants to."""
    import tempfile
    from pathlib import Path

    out.set_path(f"{tempfile.mkdtemp()}/file")
    Path(out.path).write_text("ELSEWHERE")
    out.metadata["of"] = "e"


@dsl.pipeline(name="elsewhere")
def elsewhere():
    """An artifact at a place of the step's own."""
    read(art=leave_elsewhere().outputs["out"])


@dsl.pipeline(name="loop-over-artifacts")
def loop_over_artifacts(given: list = ["a", "b"]):  # noqa: B006
    """A loop over what came together of another."""
    with dsl.ParallelFor(inner_artifacts(given=given).output) as art:
        read(art=art)


@dsl.pipeline(name="object-in-text")
def object_in_text(
    table: dict = {"b": [1, 2.5, True], "a": "{{x}}"},  # noqa: B006
    word: str = 'it\'s "so"',
):
    """An object and quotes in a text."""
    say(message=f"in {table} {word}")


@component
def sizes() -> List[int]:  # noqa: UP006
    """Leaves a list."""
    return [1, 2]


@dsl.pipeline(name="lists-in-texts")
def lists_in_texts(others: List[int] = [3], on: bool = True):  # noqa: B006, UP006
    """Lists whose type says of what, in texts; a truth value compared with a text."""
    left = sizes().output
    show(message=f"{left} {others}")
    with dsl.ParallelFor(left) as size:
        show(message=f"{size} of {left}")
    with dsl.If(on == "true"):
        show(message="on")


@dsl.pipeline(name="every-type")
def every_type(
    n: int = 2,
    big: int = 9007199254740991,
    x: float = 2.0,
    tiny: float = 1e-300,
    text: str = "Answer in one word.\nBe polite: 'yes'.",
):
    """Values of every type in steps and texts."""
    left = kinds(a=n).outputs
    say_kinds(
        big=left["big"],
        tiny=tiny,
        ok=left["ok"],
        text=f"{left['sum']}|{left['ok']}|{n}|{x}|{big}",
    )
    show(message=text)
    maybe(text="given")
    show(message=to_file(text="ab").outputs["out"])


@dsl.pipeline(name="infinite")
def infinite():
    """What JSON has no number for."""
    share(x=odd_numbers().outputs["Output"])


@dsl.pipeline(name="left-out")
def left_out(text: Optional[str] = None, n: Optional[int] = None):  # noqa: UP045
    """Parameters that may be left out."""
    maybe(text=text, n=n)


@component
def uri_of(art: dsl.Input[dsl.Model]):
    """Says where an artifact is."""
    print("SAY", art.uri, art.metadata["of"])


@dsl.pipeline(name="imported")
def imported(uri: str = "/data/model"):
    """Artifacts that are there already."""
    one = dsl.importer(artifact_uri=uri, artifact_class=dsl.Model, metadata={"of": "elsewhere"})
    uri_of(art=one.output)


@dsl.pipeline(name="placeholders", pipeline_config=WITH_WORKSPACE)
def placeholders():
    """All that kfp fills in."""
    for one in (
        dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER,
        dsl.PIPELINE_JOB_ID_PLACEHOLDER,
        dsl.PIPELINE_TASK_NAME_PLACEHOLDER,
        dsl.PIPELINE_TASK_ID_PLACEHOLDER,
        dsl.PIPELINE_ROOT_PLACEHOLDER,
        dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
        dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
        dsl.WORKSPACE_PATH_PLACEHOLDER,
    ):
        show(message=f"in {one} text")


@dsl.pipeline(name="apart")
def apart():
    """Steps that do not depend on each other, and one after all."""
    say(message="end").after(*(say(message=str(n)) for n in range(4)))
