"""The strategy that trains a model: ``trireme strategy``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.answers.comparisons import StrategyChoice, StrategyList
from trireme.cli.output import Form, Output, show
from trireme.errors import InputError
from trireme.terminal.tables import table

if TYPE_CHECKING:
    from trireme.strategy.choose import Choice
    from trireme.strategy.communication import Machines

HEAD = ["STRATEGY", "PP", "DP", "TP", "MICRO-BATCH", "CHECKPOINTING", "WEIGHTS", "GRADIENTS"]
HEAD += ["OPTIMIZER", "ACTIVATIONS", "CHECKPOINTED", "PEAK", "FITS", "WAITING", "BUBBLE", "STEP"]


def strategy(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]",
            help="Parameters, as 7e9 or 7B; a folder with Hugging Face's config.json; a model.pt.",
        ),
    ] = "",
    layers: Annotated[
        int | None, typer.Option(min=1, help="Of a network, instead of MODEL.")
    ] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Features of a token.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help="Attention heads.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=1, help="Tokens that there are.")] = None,
    device: Annotated[str, typer.Option(help="Such as h100; what else it may be is listed.")] = "",
    devices: Annotated[int, typer.Option(min=1, max=1024, help="Of each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, max=1024, help="Machines.")] = 1,
    memory: Annotated[str, typer.Option(help="Of a device, as 80GB.")] = "",
    flops: Annotated[str, typer.Option(help="Operations per second of a device, as 989T.")] = "",
    link: Annotated[
        str, typer.Option(help="What a device sends to others of its node, per second, as 450GB.")
    ] = "",
    network: Annotated[
        str, typer.Option(help="What a node sends to others, per second, as 400Gbit.")
    ] = "",
    batch_size: Annotated[int, typer.Option(min=1, max=10**6, help="Samples, of all.")] = 256,
    length: Annotated[int, typer.Option(min=1, max=10**7, help="Tokens of a sample.")] = 2048,
    precision: Annotated[str, typer.Option(help="bf16 or fp32.")] = "bf16",
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "adamw",
    master_weights: Annotated[
        bool, typer.Option(help="Keep weights in float32, and compute with copies in bf16.")
    ] = True,
    eager_attention: Annotated[
        bool, typer.Option("--eager-attention", help="Attention keeps its matrix of scores.")
    ] = False,
    utilisation: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of FLOPS that is reached (MFU).")
    ] = 0.4,
    output: Output = Form.TEXT,
) -> None:
    """Show which strategy trains a model: what each needs, how long it waits, and which is best."""
    from dataclasses import replace

    from trireme.strategy import choose, reading, words
    from trireme.strategy.memory import STATES, recipe
    from trireme.strategy.model import llama

    _one_of("--precision", precision, ["bf16", "fp32"])
    _one_of("--optimizer", optimizer, STATES)
    shape = {"layers": layers, "width": width, "heads": heads, "vocabulary": vocabulary}
    if bool(model) == all(shape.values()) or (model and any(shape.values())):
        raise InputError("give either MODEL, or --layers, --width, --heads and --vocabulary")
    network_of = reading.model(model) if model else llama(**shape)  # type: ignore[arg-type]
    trained = replace(network_of, fused=not eager_attention)
    own = {"memory": memory, "flops": flops, "link": link, "network": network}
    machines = _machines(nodes, devices, device, own, precision, utilisation)
    training_recipe = recipe(precision, optimizer, master_weights)
    choices = choose.choices(trained, training_recipe, machines, batch_size, length)
    if not choices:
        raise InputError(f"--batch-size {batch_size}: {machines.world} devices cannot divide it")
    jobs = (
        {"PyTorch": words.pytorch(choices[0], trained, training_recipe, machines)}
        if choices[0].fits
        else {}
    )
    jobs["TensorFlow"] = words.tensorflow(choices, trained, machines)
    answer = StrategyList(
        parameters=trained.parameters,
        layers=trained.layers,
        width=trained.width,
        heads=trained.heads,
        vocabulary=trained.vocabulary,
        devices=machines.world,
        memory=machines.memory,
        flops=machines.flops,
        choices=[_answer(choice) for choice in choices],
        reason=choose.reason(choices, machines),
        jobs=jobs,
    )
    show(answer, output, _draw)
    raise typer.Exit(int(not choices[0].fits))


def _one_of(field: str, value: str, accepted: "list[str] | dict[str, Any]") -> None:
    if value not in accepted:
        raise InputError(f"{field} {value!r}: has to be one of {', '.join(accepted)}")


def _machines(
    nodes: int, devices: int, device: str, own: dict[str, str], precision: str, utilisation: float
) -> "Machines":
    """Returns the machines of a known device, and of own values instead of its data sheet's."""
    from trireme.strategy.communication import Machines
    from trireme.strategy.devices import DEVICES
    from trireme.strategy.reading import amount

    values = {name: amount(f"--{name}", text) for name, text in own.items() if text}
    if device:
        _one_of("--device", device.lower(), DEVICES)
        sheet = DEVICES[device.lower()]
        flops = sheet.bf16 if precision == "bf16" else sheet.fp32
        values = {"memory": sheet.memory, "flops": flops, "link": sheet.link} | values
    needed = ["memory", "flops", *(["link"] * (devices > 1)), *(["network"] * (nodes > 1))]
    if missing := [f"--{name}" for name in needed if name not in values]:
        instead = (
            "" if device or missing == ["--network"] else f", or --device: {', '.join(DEVICES)}"
        )
        raise InputError(f"give {' and '.join(missing)}{instead}")
    values = {"link": 1.0, "network": 1.0} | values  # not used where they are not needed
    values["flops"] *= utilisation
    return Machines(nodes, devices, **values)


def _answer(choice: "Choice") -> StrategyChoice:
    mesh, memory, step = choice.mesh, choice.memory, choice.step
    activations, checkpointed = choice.activations
    return StrategyChoice(
        name=choice.name,
        pp=mesh.pp,
        dp=mesh.dp,
        tp=mesh.tp,
        micro_batch=choice.work.samples,
        checkpointing=choice.work.recompute,
        weights=memory.weights,
        gradients=memory.gradients,
        optimizer=memory.optimizer,
        activations=activations,
        activations_checkpointed=checkpointed,
        peak=memory.peak,
        fits=choice.fits,
        waiting=step.waiting / step.seconds,
        bubble=step.bubble / step.seconds,
        seconds=step.seconds,
    )


def _draw(answer: StrategyList) -> None:
    typer.echo(
        f"{answer.parameters:.3g} parameters: {answer.layers} layers, width {answer.width}, "
        f"{answer.heads} heads, vocabulary {answer.vocabulary}"
    )
    typer.echo(
        f"{answer.devices} devices with {answer.memory / 1e9:g} GB and, as assumed, "
        f"{answer.flops / 1e12:.3g} TFLOP/s of use\n"
    )
    table(HEAD, map(_row, answer.choices))
    typer.echo(f"\n{answer.reason}\n")
    for name, fields in answer.jobs.items():
        typer.echo(name)
        for field, value in fields.items():
            typer.echo(f"  {field}: {value}")


def _row(choice: StrategyChoice) -> list[str]:
    from trireme.strategy.choose import gigabytes

    sizes = [choice.weights, choice.gradients, choice.optimizer, choice.activations]
    sizes += [choice.activations_checkpointed, choice.peak]
    return [
        choice.name,
        *(str(size) for size in (choice.pp, choice.dp, choice.tp, choice.micro_batch)),
        "yes" if choice.checkpointing else "no",
        *map(gigabytes, sizes),
        "yes" if choice.fits else "no",
        *(f"{share:.0%}" for share in (choice.waiting, choice.bubble)),
        f"{choice.seconds:.3g} s",
    ]
