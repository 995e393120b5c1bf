"""The text of a package that adds one of each kind of plugin."""

PACKAGE = '''
from kfp import dsl

from trireme.data.listing import Entry
from trireme.images import BASE
from trireme.observers.base import Observer
from trireme.targets.base import Run, Step, Target
from trireme.targets.registry import Option, TargetEntry


class Counting(Observer):
    """Counts lines, and has the count recorded."""

    def __init__(self, job):
        self.name, self.count = job.name, 0

    def lines(self, replica, text):
        self.count += 1 + text.count("\\n")

    def end(self, failure):
        self.record(metrics={"lines": self.count}, words=[f"{self.count} lines of {self.name}"])


class Memory:
    """Files that are held in memory."""

    readers = 1

    def __init__(self, dataset):
        self.name = dataset.place.path

    def list(self):
        return [Entry(self.name, 5, "1")]

    def read(self, entry, start, length):
        yield b"hello"[start : start + length]


class Elsewhere(Target):
    """A place that knows one run."""

    name, title = "elsewhere", "another place"

    def __init__(self, room):
        self.room = room

    def latest(self):
        return [Run(f"a-run-in-{self.room}", "FINISHED", 0.0, 1.0)]


ELSEWHERE = TargetEntry("acme:Elsewhere", "elsewhere", (Option("room", "Which room."),))


def hello(name: str = "you"):
    """Says hello."""
    print(f"hello {name}")


@dsl.component(base_image=BASE)
def greet() -> str:
    return "hello"


@dsl.pipeline(name="greeting")
def greeting():
    greet()
'''

FRAMEWORK = """
from trireme.frameworks.pytorch import Custom, PyTorch


class Lightning(PyTorch):
    name, connects_by = "acme-torch", "as PyTorch"


class Ring(Custom):
    name, connects_by = "acme-ring", "a ring"

    def environment(self, job, pod, network):
        return super().environment(job, pod, network) | {"RING": f"{pod.index} of {self.name}"}


LIGHTNING, RING = Lightning(), Ring()
"""

ENTRY_POINTS = """
[trireme.observers]
counting = acme:Counting
broken = acme:nothing

[trireme.data_sources]
memory = acme:Memory

[trireme.targets]
elsewhere = acme:ELSEWHERE
no-target = acme:hello

[trireme.frameworks]
acme-torch = acme_framework:LIGHTNING
acme-ring = acme_framework:RING

[trireme.commands]
hello = acme:hello
gone = acme.gone:command

[trireme.pipelines]
greeting = acme:greeting
"""
