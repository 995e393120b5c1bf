"""Time lines of replicas as evidence: what was tried, and what they used."""

from collections.abc import Mapping

from trireme.answers.answer import moment
from trireme.answers.explanations import Evidence, Tried
from trireme.observers.timeline import RUNNING, Life
from trireme.report.picture import StepPicture
from trireme.text.units import in_words

SHOWN = 20  # starts of replicas that are told, the last


def tried(lives: Mapping[str, Life]) -> list[Tried]:
    """Returns each start of each replica, in the order of time."""
    every = [
        Tried(
            what=name,
            began=moment(span.began),
            seconds=None if span.ended is None else round(span.ended - span.began, 3),
            result=span.failed,
        )
        for name, life in lives.items()
        for span in life.spans
        if span.state == RUNNING
    ]
    return sorted(every, key=lambda start: start.began)[-SHOWN:]


def evidence(step: StepPicture) -> list[Evidence]:
    """Returns what replicas used at most, beside what they asked for, and what a preflight found.

    What they used is not known of those that run.
    """
    items = []
    for name, life in step.replicas.items():
        requested = step.requested.get(name.rpartition("-")[0], {}).get("memory")
        if life.peak_memory is not None:
            of = f" of {in_words(int(requested))} that it asked for" if requested else ""
            sentence = f"had at most {in_words(life.peak_memory)}{of}"
            items.append(Evidence(what="memory", about=name, sentence=sentence))
    problems = step.preflight.get("problems", [])
    return items + [
        Evidence(what="preflight", about="", sentence=str(problem["sentence"]))
        for problem in problems
    ]
