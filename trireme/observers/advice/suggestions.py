"""Suggestions for a job, by what has been measured of it: a function for each.

Where there is no evidence there is no suggestion. The thresholds that others use, too, are
explained in docs/explanation/advice.md.
"""

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple

from trireme.cost.prices import Prices
from trireme.kubernetes.amounts import shown
from trireme.observers.advice.frames import COMMUNICATION, DATA
from trireme.observers.advice.measured import FEWEST, Asked, Measured, Use, role_of
from trireme.observers.goodput import interval
from trireme.observers.goodput.ledger import Ledger
from trireme.text.units import lasting

MUCH_DATA = 0.20  # of the time: "highly input-bound" in TensorFlow's profiler
MUCH_COMMUNICATION = 0.20  # likewise; PyTorch's profiler speaks of it from 0.10 on
LITTLE_COMMUNICATION = 0.10  # what accumulated gradients are to bring it down to
MOST_ACCUMULATED = 16  # batches whose gradients are added up
APART = 0.30  # of the time that one replica communicates more than another, which it waits for
BOUND = 0.80  # of the time: by what a training is bound
MARGIN = 1.15  # what is asked for beyond what is used, as by Kubernetes' vertical autoscaler
NEAR = 0.90  # of a limit of memory
FULL = 0.95  # of a limit of processors
UNUSED = 0.50  # of what was asked for, above which nothing is said
IDLE_MACHINE = 0.10  # of this machine's processors: with fewer, replicas may lack them
IDLE_GPU = 0.50  # of the time, as in PyTorch's profiler
BFLOAT16 = 8.0  # compute capability: https://docs.nvidia.com/cuda/ampere-tuning-guide
LONG_ENOUGH = 600.0  # seconds that it has to run for anything to be said of how often it saves
LOST = 0.02  # of the time that another interval between checkpoints saves
WAITS = 0.50  # of its time that a replica works without a GPU: with less, it waits for something

GIB = 2**30
_OUT_OF_MEMORY = re.compile(r"out of memory|DefaultCPUAllocator|MemoryError|OOM when allocating")
_IN_OPTIMIZER = re.compile(r"(torch)/optim/|keras/src/optimizers/|optax/")
_SHARDED = re.compile(r"fully_shard|fsdp|FSDP|deepspeed|--strategy (hybrid|tp|pp)")
_LOADERS = re.compile(r"--?(?:data[-_]?loader[-_])?(?:num[-_])?(?:data[-_])?workers\b")
_BF16 = re.compile(r"bf16|bfloat16|fp16|float16|amp|mixed", re.IGNORECASE)


class Suggestion(NamedTuple):
    """What to change, and why.

    Attributes:
        why: A sentence with the number that it comes from.
        change: The field of the job, as in ``cpu: 1``, or what to change in the program.
        saves: What that saves, in words; empty where that is not known.
    """

    why: str
    change: str
    saves: str = ""

    def __str__(self) -> str:
        """Returns it as one sentence."""
        return f"{self.why}: {self.change}" + (f" ({self.saves})" if self.saves else "")


def suggestions(measured: Measured, prices: Prices | None = None) -> list[Suggestion]:
    """Returns what to change, the most telling first."""
    advice = [suggestion for rule in RULES if (suggestion := rule(measured))]
    for rule in OF_ROLES:
        advice += _of_roles(rule, measured, prices)
    return advice


def save_memory(measured: Measured) -> Suggestion | None:
    """Memory was used up: while the optimizer made its state, or elsewhere."""
    if not _OUT_OF_MEMORY.search(measured.failure):
        return None
    optimizer = _IN_OPTIMIZER.search(measured.failure)
    if not optimizer:
        change = "a smaller batch, with the gradients of several added up, or more memory"
        return Suggestion("memory was used up while a batch was computed or loaded", change)
    why = "memory was used up in the optimizer"
    if not optimizer[1] or measured.peers < 2 or _SHARDED.search(" ".join(measured.args)):
        return Suggestion(why, "more memory, or an optimizer with less state")
    why += f", whose state each of the {measured.peers} processes has whole"
    return Suggestion(why, "divide it among them with fully_shard (FSDP) in the program")


def more_loaders(measured: Measured) -> Suggestion | None:
    """Data comes too slowly."""
    share = measured.share(DATA)
    if measured.looks < FEWEST or share < MUCH_DATA:
        return None
    why = f"training waits for its data {share:.0%} of the time"
    if measured.has_tf_data:
        change = "load in parallel in the program: Dataset.map(..., num_parallel_calls=AUTOTUNE) "
        change += "and .prefetch(AUTOTUNE) from files, as from_generator runs in one thread"
        return Suggestion(why, change)
    has = max(use.loaders for use in measured.trainers.values())
    work = max(use.loaders_work for use in measured.trainers.values())
    if has and work < BOUND:
        why += f", while its {has} loaders have nothing to do {1 - work:.0%} of theirs"
        change = (
            "more of them do not help; pin_memory, larger items or a higher prefetch_factor may"
        )
        return Suggestion(why, change)
    # As many as load a batch while the rest of a step takes place; they begin at one.
    count = max(has + 1, math.ceil(max(has, 1) * share / max(1 - share, 0.05)))
    why += f", and its {has} loaders always work" if has else ", and loads it itself"
    change = _loaders(measured, min(count, 16))
    if _is_full(measured):
        change += f"; but this machine's processors are idle only {measured.idle:.0%} of the time"
    return Suggestion(why, change)


def exchange_less(measured: Measured) -> Suggestion | None:
    """Replicas exchange gradients, or what else they do, for too large a part of each step."""
    if measured.looks < FEWEST or measured.peers < 2 or slow_replica(measured):
        return None
    share = min(use.share(COMMUNICATION) for use in measured.trainers.values())
    if share < MUCH_COMMUNICATION:
        return None
    why = f"communication takes {share:.0%} of the time, also of the replica that waits least"
    if not measured.by_gradients:
        return Suggestion(why, "fewer replicas, each with more to compute, exchange less")
    goal = LITTLE_COMMUNICATION
    times = math.ceil(share / max(1 - share, 0.01) * (1 - goal) / goal)
    times = min(times, MOST_ACCUMULATED)
    change = f"accumulate the gradients of {times} batches (no_sync() in DistributedDataParallel), "
    change += f"or a batch {times} times as large; both learn from so many samples at a time"
    return Suggestion(why, change)


def slow_replica(measured: Measured) -> Suggestion | None:
    """All wait for one."""
    shares = {name: use.share(COMMUNICATION) for name, use in measured.trainers.items()}
    fewest = min((sum(use.looks.values()) for use in measured.trainers.values()), default=0)
    if fewest < FEWEST or len(shares) < 2:
        return None
    slow, fast = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[fast] - shares[slow] < APART:
        return None
    why = f"{fast} waits for the others {shares[fast]:.0%} of its time, {slow} {shares[slow]:.0%}"
    change = f"look at what {slow} does more than the others: its data, its machine, rank 0's work"
    return Suggestion(why, change)


def larger_batch(measured: Measured) -> Suggestion | None:
    """A GPU has room and time for more."""
    idle = [gpu for gpu in measured.gpus if gpu.busy < IDLE_GPU and gpu.memory < UNUSED]
    waits = measured.share(DATA) >= MUCH_DATA or measured.share(COMMUNICATION) >= MUCH_DATA
    if measured.looks < FEWEST or waits or not idle or len(idle) < len(measured.gpus):
        return None
    gpu = max(idle, key=lambda device: device.busy)
    why = f"GPU {gpu.name} works {gpu.busy:.0%} of the time, {gpu.memory:.0%} of its memory is used"
    return Suggestion(why, "a larger batch")


def bfloat16(measured: Measured) -> Suggestion | None:
    """A GPU that has bfloat16 computes all the time, and nothing says that it is used."""
    busy = [gpu for gpu in measured.gpus if gpu.busy >= BOUND and gpu.capability >= BFLOAT16]
    if measured.looks < FEWEST or not busy or _BF16.search(" ".join(measured.args)):
        return None
    why = f"GPU {busy[0].name} works {busy[0].busy:.0%} of the time"
    return Suggestion(why, "bfloat16, where the program computes in float32 (torch.autocast)")


def find_out(measured: Measured) -> Suggestion | None:
    """Replicas wait most of their time, and nobody has looked for what."""
    if measured.looks or measured.has_gpu or _is_full(measured):
        return None
    for name, use in measured.replicas.items():
        asked = measured.asked.get(role_of(name))
        if not (asked and asked.trains) or use.cpu is None or use.seconds < measured.least:
            continue
        if use.cpu >= WAITS * min(1.0, float(asked.limits.get("cpu", 1))):
            continue  # it worked, or was not given more
        why = f"{name} used a processor {use.cpu:.0%} of its time, so it waited for something"
        return Suggestion(why, "'trireme job advise' tells for what")
    return None


def save_as_often(measured: Measured) -> Suggestion | None:
    """It saves much more often, or more seldom, than loses the least time."""
    ledger = measured.ledger or Ledger()
    saving = interval.how_often(ledger)
    if not saving or saving.now is None or saving.lost_now is None:
        return None
    if saving.lost_now - saving.lost < LOST or ledger.ran < LONG_ENOUGH:
        return None
    why = f"saving every {lasting(saving.now)} loses {saving.lost_now:.1%} of the time"
    change = f"save every {lasting(saving.every)}, which loses {saving.lost:.1%} (Young and Daly: "
    change += f"a checkpoint stops training for {lasting(saving.stop)}, and it was "
    times = "once" if ledger.interruptions == 1 else f"{ledger.interruptions} times"
    change += f"interrupted {times} in {lasting(ledger.ran)})"
    return Suggestion(why, change)


class _Of(NamedTuple):
    """Something about the replicas of a role.

    Attributes:
        name: Of the resource.
        amount: What to ask for, instead of what is asked for now.
    """

    name: str
    amount: Decimal
    why: str


def more_cpus(measured: Measured, asked: Asked, most: Use) -> _Of | None:
    """Replicas use all that they may."""
    limit = float(asked.limits.get("cpu", 0))
    if most.cpu is None or not limit or most.cpu < FULL * limit:
        return None
    amount = _halves(max(most.cpu, limit) * MARGIN)
    if measured.cores:  # no more than it can be given here, which is all that is known
        replicas = sum(role.count for role in measured.asked.values())
        amount = min(amount, Decimal(int(2 * measured.cores / replicas)) / 2)
    if amount <= limit:
        return None
    above = most.cpu > 1.05 * limit
    why = f"it uses {_short(most.cpu)} CPUs, and may use {limit:g}"
    why += ", which a cluster keeps it to" if above else ""
    return _Of("cpu", amount, why)


def fewer_cpus(measured: Measured, asked: Asked, most: Use) -> _Of | None:
    """Replicas leave most of their processors alone."""
    request = float(asked.requests.get("cpu", 0))
    if most.cpu is None or not request or measured.share(DATA) >= MUCH_DATA:
        return None  # more loaders may use them
    all_asked = sum(role.count * role.requests.get("cpu", 0) for role in measured.asked.values())
    if _is_full(measured) or (measured.cores and all_asked > measured.cores):
        return None  # it has not had them
    amount = _halves(most.cpu * MARGIN)
    if amount > UNUSED * request or request - float(amount) < 1:
        return None
    return _Of("cpu", amount, f"it uses {_short(most.cpu)} of {request:g} CPUs")


def more_memory(measured: Measured, asked: Asked, most: Use) -> _Of | None:
    """Replicas come near to where they are killed."""
    limit = float(asked.limits.get("memory", 0))
    if most.memory is None or not limit or most.memory < NEAR * limit:
        return None
    why = f"it had {_gib(most.memory)} of memory, and is killed beyond {_gib(limit)}"
    return _Of("memory", _whole_gib(most.memory * MARGIN), why)


def less_memory(measured: Measured, asked: Asked, most: Use) -> _Of | None:
    """Replicas leave most of their memory alone."""
    request = float(asked.requests.get("memory", 0))
    if most.memory is None or not request:
        return None
    amount = _whole_gib(most.memory * MARGIN)
    if amount > UNUSED * request or request - float(amount) < GIB:
        return None
    why = f"it had at most {_gib(most.memory)} of its {_gib(request)} of memory"
    return _Of("memory", amount, why)


RULES: tuple[Callable[[Measured], Suggestion | None], ...] = (
    save_memory,
    more_loaders,
    slow_replica,
    exchange_less,
    larger_batch,
    bfloat16,
    find_out,
    save_as_often,
)
OF_ROLES = (more_cpus, fewer_cpus, more_memory, less_memory)


def _of_roles(
    rule: Callable[[Measured, Asked, Use], _Of | None], measured: Measured, prices: Prices | None
) -> Iterator[Suggestion]:
    """Yields what a rule says of roles: once, where it is the same for all."""
    by_role = {}
    for role, asked in measured.asked.items():
        uses = [
            use
            for name, use in measured.replicas.items()
            if role_of(name) == role and use.seconds >= measured.least
        ]
        if uses and (proposal := rule(measured, asked, _most(uses))):
            by_role[role] = proposal
    same = (
        len(by_role) == len(measured.asked)
        and len({proposal.amount for proposal in by_role.values()}) == 1
    )
    # Which the job's own field would not change.
    same = same and not any(
        proposal.name in measured.asked[role].own for role, proposal in by_role.items()
    )
    most = max(by_role, key=lambda role: by_role[role].why, default="")
    for role in [most] if same else by_role:
        roles = list(by_role) if same else [role]
        proposal = by_role[role]
        where = proposal.name if same else f"replicas.{role}.{proposal.name}"
        subject = role if measured.asked[role].count == 1 else f"each {role}"
        subject = "each replica" if same and len(by_role) > 1 else subject
        change = f"{measured.place}{where}: {shown(proposal.name, proposal.amount)}"
        why = proposal.why.replace("it ", f"{subject} ", 1)
        yield Suggestion(why, change, _saves(measured, roles, proposal, prices))


def _most(uses: list[Use]) -> Use:
    """Returns what the replica of a role used that used the most of each."""
    cpus = [use.cpu for use in uses if use.cpu is not None]
    memory = [use.memory for use in uses if use.memory is not None]
    return Use(uses[0].seconds, max(cpus, default=None), max(memory, default=None))


def _saves(measured: Measured, roles: list[str], proposal: _Of, prices: Prices | None) -> str:
    """Says what an hour of the job costs less, or more, with another amount."""
    if not prices:
        return ""
    difference = 0.0
    for role in roles:
        asked = measured.asked[role]
        now = prices.hour(asked.requests, asked.selector)
        then = prices.hour({**asked.requests, proposal.name: proposal.amount}, asked.selector)
        difference += asked.count * (now - then)
    words = prices.in_words(abs(difference))
    return f"saves {words} an hour" if difference > 0 else f"costs {words} more an hour"


def _loaders(measured: Measured, count: int) -> str:
    """Says how a program gets so many processes that load data."""
    words = " ".join(measured.args)
    option = _LOADERS.search(words)
    if option:
        return f"{measured.place}args: {option[0]} {count}"
    return f"DataLoader(..., num_workers={count}) in the program, or its option for that"


def _is_full(measured: Measured) -> bool:
    """Tells whether replicas may have lacked processors of this machine."""
    return measured.idle is not None and measured.idle < IDLE_MACHINE


def _halves(cpus: float) -> Decimal:
    """Returns CPUs, rounded up to halves."""
    return Decimal(max(1, math.ceil(2 * cpus))) / 2


def _whole_gib(size: float) -> Decimal:
    return Decimal(max(1, math.ceil(size / GIB))) * GIB


def _gib(size: float) -> str:
    return f"{_short(size / GIB)}Gi"


def _short(number: float) -> str:
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"
