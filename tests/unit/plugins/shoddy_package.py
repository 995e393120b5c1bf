"""The text of a package whose plugins are broken, each in another way."""

SHODDY = '''
from pathlib import Path

from trireme.observers.base import Observer
from trireme.targets.base import Run, Target
from trireme.targets.registry import NAMESPACE, Option, TargetEntry


class Wordy(Observer):
    """Records a text as a number."""

    def __init__(self, job):
        pass

    def end(self, failure):
        self.record(metrics={"loss": "high"})


def no_observer(job):
    return 3


class Attic:
    """Files that cannot be listed."""

    readers = 1

    def __init__(self, dataset):
        pass

    def list(self):
        return {}["kaput"]

    def read(self, entry, start, length):
        yield b""


class Shed(Target):
    """A place that fails at all."""

    name, title = "shed", "the shed"

    def __init__(self, namespace):
        pass

    def run(self, pipeline, arguments, name, console, *, wait):
        pass

    def latest(self):
        return {}["gone"]


class Renamed(Shed):
    name = "elsewhere"


class Closed(Shed):
    name = "closed"

    def __init__(self, namespace):
        Path("/nowhere/at/all").read_text()


class Narrow(Shed):
    name = "narrow"

    def __init__(self):
        pass


def place(name, *options):
    return TargetEntry(f"shoddy:{name}", "somewhere", options)


SHED, RENAMED, CLOSED, NARROW, ABSENT, NO_TARGET = (
    place(name, NAMESPACE)
    for name in ("Shed", "Renamed", "Closed", "Narrow", "Absent", "Attic")
)
NO_MODULE = TargetEntry("shoddy.gone:Place", "somewhere")
NO_TUPLE = TargetEntry("shoddy:Shed", "somewhere", [NAMESPACE])
PARALLEL = place("Shed", Option("parallelism", "How many."))
SHORT = place("Shed", Option("partition", "Where.", flags=("-p",)))
OTHERS = place("Shed", Option("namespace", "The room."))

hello = "no function"
'''

SHODDY_FRAMEWORKS = """
from trireme.frameworks.base import Framework, Role
from trireme.frameworks.kinds import of_training_operator
from trireme.frameworks.pytorch import Custom, PyTorch
from trireme.images import BASE


class NoKind(Framework):
    name, connects_by, image, injected = "no-kind", "nothing", BASE, "X"
    roles = (Role("worker", default=1, is_leader=True),)


class OtherKind(NoKind):
    name = "other-kind"
    kind = of_training_operator("PyTorchJob", "ringSpecs", "pytorch", longest_end="-worker-999")


class NoRoles(OtherKind):
    name = "no-roles"
    roles = Role("worker")
    kind = Custom.kind


class NoPattern(NoRoles):
    name, injected = "no-pattern", "("
    roles = NoKind.roles


class Distant(NoPattern):
    name, injected = "distant", "X"


class Unchecked(Custom):
    name = "unchecked"

    def check(self, job):
        if job.workers == 7:
            raise ValueError("workers 7: is too many")
        raise KeyError("ring")


class Numbered(Custom):
    name = "numbered"

    def environment(self, job, pod, network):
        return {"RING": 0}


class Unnamed(Custom):
    name = "unnamed"

    def variables(self, job, role):
        return [{"value": "0"}]


class Failing(Custom):
    name = "failing"

    def variables(self, job, role):
        raise ValueError("no ring")


no_kind, other_kind, no_roles, no_pattern = NoKind(), OtherKind(), NoRoles(), NoPattern()
distant, unchecked, numbered = Distant(), Unchecked(), Numbered()
unnamed, failing, taken = Unnamed(), Failing(), PyTorch()
"""

SHODDY_ENTRY_POINTS = """
[trireme.observers]
wordy = shoddy:Wordy
three = shoddy:no_observer

[trireme.data_sources]
attic = shoddy:Attic
s3 = shoddy:Attic

[trireme.targets]
shed = shoddy:SHED
closed = shoddy:CLOSED
narrow = shoddy:NARROW
absent = shoddy:ABSENT
no-target = shoddy:NO_TARGET
no-class = shoddy:NO_TARGET
no-module = shoddy:NO_MODULE
renamed = shoddy:RENAMED
no-tuple = shoddy:NO_TUPLE
parallel = shoddy:PARALLEL
short = shoddy:SHORT
others = shoddy:OTHERS
kfp = shoddy:SHED

[trireme.frameworks]
no-kind = shoddy_frameworks:no_kind
other-kind = shoddy_frameworks:other_kind
no-roles = shoddy_frameworks:no_roles
no-pattern = shoddy_frameworks:no_pattern
other-name = shoddy_frameworks:no_pattern
distant = shoddy_frameworks:distant
unchecked = shoddy_frameworks:unchecked
numbered = shoddy_frameworks:numbered
unnamed = shoddy_frameworks:unnamed
failing = shoddy_frameworks:failing
pytorch = shoddy_frameworks:taken
a-class = shoddy_frameworks:Failing
ends = shoddy_ends:framework

[trireme.commands]
hello = shoddy:hello
list = shoddy:place
zero = shoddy:hello

[trireme.pipelines]
sweep = shoddy:place
gone = shoddy.gone:pipeline
"""
