"""Keeping a training's ledger while it runs."""

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trireme.cost import prices
from trireme.errors import TriremeError
from trireme.files.whole_file import write_whole
from trireme.frameworks import least_replicas
from trireme.kubernetes.amounts import is_gpu, requests
from trireme.manifests.roles import roles
from trireme.observers.base import Job, Observer
from trireme.observers.goodput import kept
from trireme.observers.goodput.kept import State
from trireme.observers.goodput.ledger import Facts, Mark, ledger, metrics, sentence
from trireme.observers.goodput.saving import Watch
from trireme.observers.goodput.stops import stop
from trireme.observers.hangs import Hangs
from trireme.observers.preflight.report import PreflightLines
from trireme.observers.timeline import RUNNING

EVERY = 10.0  # seconds between two times that the file is written
CLOSE = 0.5  # seconds between two marks that are kept
KEPT = 1000  # marks of a job
RECENT = 600  # marks by which a stop is measured
WAITED = 300.0  # seconds after a checkpoint for the next mark, without which nothing tells its stop


class Goodput(Observer):
    """Keeps a training's ledger in a file, also through jobs that are made anew, and resumes."""

    def __init__(
        self,
        file: Path,
        leader: str,
        manifest: Mapping[str, Any],
        hangs: Hangs,
        *,
        checkpoints: Path | None = None,
        preflight: PreflightLines | None = None,
    ) -> None:
        """Goes on with the file of jobs before this one, which the step has made, too.

        Args:
            leader: The name of the replica by whose end the job ends.
            hangs: Knows when it hung; an observer before this one, as is ``preflight``.
            checkpoints: Its CHECKPOINT_DIR, where that can be seen from here.
            preflight: Knows when one was passed.
        """
        self._file, self._leader, self._hangs = file, leader, hangs
        self._preflight, self._directory = preflight, checkpoints
        self._state = State(followed=time.time())
        self._prepared = time.time()
        self._starts: list[float] = []  # of the leader
        self._recent: list[Mark] = []
        self._watch: Watch | None = None
        self._measured = 0  # of the checkpoints that the watch has seen
        self._next = 0.0
        self._about = _about(manifest)

    def prepare(self, manifest: dict[str, Any]) -> None:
        """Takes in that what comes now is another job."""
        self._prepared = time.time()

    def count(self, unit: str, done: float) -> None:
        """Takes in how far the leader's program is; a ``Meter`` calls it."""
        if not (math.isfinite(done) and done >= 0):
            return  # a file with it would be none for who goes on
        mark, marks = Mark(time.time(), unit, done), self._state.marks
        begun = self._starts[-1] if self._starts else 0.0
        last = marks[-1] if marks else None
        if last and last.unit == unit and last.at > begun and done <= last.done:
            return
        for row in (marks, self._recent):
            own = [each for each in row[-2:] if each.at > begun and each.unit == unit]
            if len(own) == 2 and own[1].at < own[0].at + CLOSE:
                row[-1] = mark  # the last before a stop is kept as it is
            else:
                row.append(mark)
        del self._recent[:-RECENT]
        if len(marks) > KEPT:
            del marks[-2:0:-2]

    def tick(self, job: Job) -> None:
        """Looks at the job, and writes what all comes to, not too often."""
        self._enter(str(job.manifest["metadata"].get("uid") or self._prepared))
        lives = job.lives()
        self._starts = [
            span.began
            for name, life in lives.items()
            for span in life.spans
            if name == self._leader and span.state == RUNNING
        ]
        self._measure(at_end=job.has_ended)
        if not job.has_ended and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        spans = {name: life.spans for name, life in lives.items()}
        all_spans = [span for each in spans.values() for span in each]
        asked = min((span.began for span in all_spans), default=self._prepared)
        ends = [span.ended for span in all_spans]
        known = [ended for ended in ends if ended is not None]
        until = max(known) if job.has_ended and ends and known == ends else time.time()
        state, about = self._state, self._about
        facts = Facts(
            asked,
            max(until, asked),
            spans,
            self._leader,
            pulls={name: life.pulls for name, life in lives.items()},
            marks=[*state.marks],
            checkpoints=state.checkpoints if self._watch and self._watch.sees_all else None,
            hangs=[*state.hangs, *self._hangs.spans],
            preflights=[
                *state.preflights,
                *(self._preflight.report.passed if self._preflight else ()),
            ],
            followed=state.followed,
            reached=state.reached,
            is_resumed=bool(state.before.whole),
            **about,
        )
        state.now = ledger(facts)
        self._write(facts)

    def end(self, failure: BaseException | None) -> None:
        """Records what all comes to."""
        of = self._state.before + self._state.now
        if of.whole:
            self.record(metrics=metrics(of), words=[f"goodput: {sentence(of)}"])

    def _enter(self, key: str) -> None:
        """Takes in which job it is: another one, or that which a process before has followed."""
        state = self._state
        if key == state.key:
            return
        if not state.key and (known := kept.load(self._file)):
            came = state.marks
            state = known if known.key == key else known.next(key)
            state.marks += came
            self._state = state
        else:
            self._state = state.next(key)
        if self._directory:
            if self._watch:
                self._watch.end()
            self._watch, self._measured = Watch(self._directory), 0
            self._watch.start()

    def _measure(self, *, at_end: bool) -> None:
        """Measures the stops of checkpoints, as soon as training is seen to go on after them."""
        if not self._watch:
            return
        if at_end:
            self._watch.end()
        seen = self._watch.seen
        for writing in seen[self._measured :]:
            began = max((at for at in self._starts if at <= writing.ended), default=0.0)
            ended = min((at for at in self._starts if at > began), default=math.inf)
            marks = [mark for mark in self._recent if began < mark.at < ended]
            is_over = at_end or ended < math.inf
            if marks and is_over and marks[-1].at < writing.ended:
                marks.append(marks[-1]._replace(at=writing.ended))  # no step came any more
            goes_on = bool(marks) and marks[-1].at >= writing.ended
            if not (is_over or goes_on or time.time() > writing.ended + WAITED):
                return
            first = marks[0].at if marks else math.inf
            others = [other for other in seen if other.ended > first]
            self._state.checkpoints.append(stop(writing, marks, others))
            self._measured += 1

    def _write(self, facts: Facts) -> None:
        state = self._state
        whole = [(began, facts.until if ended is None else ended) for began, ended in facts.hangs]
        content = replace(state, hangs=whole, preflights=[*facts.preflights])
        with suppress(OSError):  # a full disk does not stop training
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(asdict(content)))


def _about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the facts that a job's manifest has: how many replicas, and what each has."""
    known = None
    with suppress(TriremeError):  # a broken table of prices ends no training
        known = prices.read()
    gpus, hours, count = {}, {}, 0
    for role in roles(manifest):
        asked, name = requests(role.pod), role.name.lower()
        count += role.count
        gpus[name] = float(sum(asked[each] for each in asked if is_gpu(each)))
        if known:
            hours[name] = known.hour(asked, role.selector)
    return {
        "expected": count,
        "needed": least_replicas(manifest),
        "gpus": gpus,
        "prices": hours if known else None,
        "currency": known.currency if known else "",
    }
