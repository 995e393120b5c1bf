"""Measurements of a training."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from trireme.kubernetes.amounts import Amounts
from trireme.observers.advice.frames import KINDS
from trireme.observers.goodput.ledger import Ledger

FEWEST = 30  # looks at all processes before anything is said of what their time goes to
LONG = 60.0  # seconds that a replica has to run, with its start, before anything follows from it


@dataclass(frozen=True)
class Use:
    """What a replica did and used.

    Attributes:
        seconds: For how long it was measured.
        cpu: CPUs that it used, the mean of that time; None where it is not known.
        memory: The most bytes that it had, likewise.
        looks: How often its processes that train were seen at what; none: nobody looked.
        loaders: Processes that load data for one that trains.
        loaders_work: The share of time in which they had something to load.
        processes: How many of its processes train, as far as somebody looked.
    """

    seconds: float
    cpu: float | None = None
    memory: float | None = None
    looks: Counter[str] = field(default_factory=Counter)
    loaders: int = 0
    loaders_work: float = 0.0
    processes: int = 1

    def share(self, kind: str) -> float:
        """Returns the share of its time that went to something, from 0 to 1."""
        return self.looks[kind] / max(1, sum(self.looks[other] for other in KINDS))


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        busy: The share of time that it worked.
        memory: The largest share of its memory that was in use.
        capability: Its compute capability, such as 9.0; 0 where it is not known.
    """

    name: str
    busy: float
    memory: float
    capability: float = 0.0


@dataclass(frozen=True)
class Asked:
    """What each replica of a role has asked for, and may use at most.

    Attributes:
        selector: The labels that its nodes have to have, by which prices may differ.
        count: How many replicas the role has.
        trains: Whether they train, rather than start or serve others, as far as that is known.
        own: The fields that the job gives this role itself, which win over those of all roles.
    """

    requests: Amounts
    limits: Amounts
    selector: Mapping[str, str]
    count: int
    trains: bool = True
    own: Collection[str] = ()


@dataclass(frozen=True)
class Measured:
    """A training.

    Attributes:
        replicas: Those of which something is known, by name.
        asked: By role in lower case.
        peers: How many processes train, of all replicas.
        idle: The share of this machine's processors that nobody used; None on a cluster.
        cores: The processors of this machine; None on a cluster.
        has_gpu: Whether its replicas use GPUs, or may.
        args: Arguments of the program.
        has_tf_data: Whether its data comes from TensorFlow, as far as was seen.
        by_gradients: Whether its processes exchange the gradients of a batch, as far as was seen.
        ledger: What its time went to, where that was kept.
        failure: What its replica to blame has printed last, where it has failed.
        place: Before a field of the job, as in ``job.``, where the job is part of a pipeline.
        least: Seconds that a replica has to be measured for anything to be said of its resources.
    """

    replicas: Mapping[str, Use]
    asked: Mapping[str, Asked]
    peers: int = 1
    idle: float | None = None
    cores: int | None = None
    gpus: Sequence[Gpu] = ()
    has_gpu: bool = False
    args: Sequence[str] = ()
    has_tf_data: bool = False
    by_gradients: bool = True
    failure: str = ""
    ledger: Ledger | None = None
    place: str = ""
    least: float = LONG

    @property
    def trainers(self) -> dict[str, Use]:
        """The replicas whose processes were looked at while they trained."""
        return {name: use for name, use in self.replicas.items() if use.looks}

    @property
    def looks(self) -> int:
        """How often all processes that train were looked at."""
        return sum(sum(use.looks.values()) for use in self.replicas.values())

    def share(self, kind: str) -> float:
        """Returns the share of all replicas' time that went to something."""
        return sum(use.looks[kind] for use in self.replicas.values()) / max(1, self.looks)


def role_of(replica: str) -> str:
    """Returns the role of a replica by its name, as in ``worker-0``."""
    return replica.rpartition("-")[0]
