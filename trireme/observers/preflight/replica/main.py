"""The preflight of one replica; see docs/explanation/preflight.md.

It says what it finds in lines of JSON after ``MARK``: ``waiting`` (a problem that may pass),
``record`` (what it has found), ``verdict`` (of all of them, by the first), ``skipped``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Mapping

from trireme.observers.preflight.replica import all_reduce, collective, host, mpi, said, verdict
from trireme.observers.preflight.replica import place as places
from trireme.observers.preflight.replica.links import Links
from trireme.observers.preflight.replica.meeting import Hub, Meeting
from trireme.observers.preflight.replica.said import FAILED, Failed, Skipped

PASSED = ".trireme-preflight"
"""The file that says which job has passed: a replica that is started again goes on."""

LONGEST = 300.0  # seconds that it may take when all are there, and places.EACH for each
MOST = 20  # problems that are told

LEAST_PATIENCE = 60.0  # seconds that the first replica waits for the others
SOON, EVERY = 5.0, 60.0  # seconds after which it is said what is waited for, and how often


def main(config: Mapping[str, Any], code: str) -> int:
    """Returns the status to exit with: ``FAILED``, or 0 where the job may train."""
    try:
        if _has_passed(config["token"]):
            raise Skipped("the job has passed it before")
        if config["meeting"].get("hostfile") and "hosts" not in config:
            return mpi.conduct(config, code)
        return _test(config)
    except Failed as failure:
        said.say(verdict={"problems": [failure.problem]})
        print(f"{said.SENTENCE}{failure}", flush=True)
        return FAILED
    except Skipped as why:
        said.say(skipped=str(why))
    except Exception as error:  # a fault of the test's is none of the job's
        said.say(skipped=f"{type(error).__name__}: {error}")
    return 0


def _test(config: Mapping[str, Any]) -> int:
    began, place = time.monotonic(), places.find(config)
    hub = None
    if place.rank == 0:
        # Whoever cannot reach it is to say so first.
        hub = Hub(place, config["token"], max(2 * config["patience"], LEAST_PATIENCE))
        hub.start()
    with _Waiting() as wait:
        meeting = Meeting(place, config["token"], config["patience"], wait)
    meeting.exchange(None)
    if place.rank == 0:
        said.say(all_here=True)
    longest = LONGEST + places.EACH * place.size
    limit = threading.Timer(longest, _give_up, [longest])
    limit.daemon = True
    limit.start()
    try:
        return _test_together(config, place, meeting, hub, began)
    finally:
        limit.cancel()


def _give_up(after: float) -> None:
    """Lets the job train where a replica has stopped answering, such as for a disk that hangs."""
    said.say(skipped=f"it took longer than {after:.0f} s")
    sys.stdout.flush()
    os._exit(0)


def _test_together(
    config: Mapping[str, Any],
    place: places.Place,
    meeting: Meeting,
    hub: Hub | None,
    began: float,
) -> int:
    started = time.monotonic()
    record = _record(config, place, meeting)
    _reduce(config, place, meeting, record)
    records = meeting.exchange(record)
    problems = verdict.judge(records, config["library"])
    has_failed = any(entry["fatal"] for entry in problems)
    said.say(record=record)
    if place.rank == 0:
        waited, elapsed = started - began, time.monotonic() - started
        # A line has a limit, and what ends the job comes first.
        shown = sorted(problems, key=lambda entry: not entry["fatal"])[:MOST]
        said.say(verdict={"problems": shown, "seconds": elapsed, "waited": waited})
        for entry in problems:
            print(f"{said.SENTENCE}{entry['sentence']}", flush=True)
    if not (has_failed or config["alone"]):
        _pass(config["token"])
    meeting.close()
    if hub:
        hub.finish()
    return FAILED if has_failed else 0


def _record(config: Mapping[str, Any], place: places.Place, meeting: Meeting) -> dict[str, Any]:
    """Returns what this replica finds out, with the others, before a library is loaded."""
    answer, ahead = meeting.clock()
    record: dict[str, Any] = {
        "replica": place.name,
        "asked": config["asked"],
        "saves": config["saves"],
        "answer": answer,
        "clock": ahead,
    }
    record.update(host.facts(), problems=places.unknown(place), links=[], interface="")
    contact: dict[str, Any] = {"name": place.name}
    links = None
    try:
        links = Links(place, meeting)
        record["interface"] = links.interface
        contact.update(address=links.address, port=links.port)
    except Failed as failure:
        record["problems"].append(failure.problem)
    peers = meeting.exchange(contact)
    if links and all("port" in peer for peer in peers):
        record["links"] = links.measure(peers)
        links.close()
    return record


def _reduce(
    config: Mapping[str, Any], place: places.Place, meeting: Meeting, record: dict[str, Any]
) -> None:
    """Adds to a record how long the job's own library takes for an all-reduce."""
    record["all_reduce"] = {}
    library = config["meeting"].get("all_reduce", "")
    is_whole = not record["problems"] and all("rate" in link for link in record["links"])
    state = {"is_whole": is_whole, "versions": record["versions"].get(library)}
    state["rates"] = [link.get("rate", 0.0) for link in record["links"]]
    state["answers"] = [link.get("answer", 0.0) for link in record["links"]]
    all_told = meeting.exchange(state)
    versions = {peer["versions"] for peer in all_told}
    if len(versions) > 1 or None in versions or not all(peer["is_whole"] for peer in all_told):
        return
    process = collective.Collective(all_reduce.SOURCE, library, place)
    try:
        loaded = process.load()
        record["versions"].update(loaded or {})
        if all(meeting.exchange(loaded is not None)):
            rates = [rate for peer in all_told for rate in peer["rates"]]
            answers = [answer for peer in all_told for answer in peer["answers"]]
            plan = collective.sizes(rates, answers, place.size)
            record["all_reduce"] = process.run(plan)
        if process.problem:
            record["problems"].append(process.problem)
        meeting.exchange(None)  # nobody ends what another one is still at
    finally:
        process.end()


class _Waiting:
    """Says what keeps a replica waiting, after a while and then now and then."""

    def __init__(self) -> None:
        self._next, self._has_said = time.monotonic() + SOON, False

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_said:
            said.say(waiting=None)

    def __call__(self, problem: dict[str, Any]) -> None:
        if time.monotonic() >= self._next:
            self._next, self._has_said = time.monotonic() + EVERY, True
            said.say(waiting=problem)


def _passed() -> list[Path]:
    """Returns the files that say which job has passed: on the volume of all, and in its pod."""
    # Beside CHECKPOINT_DIR, in which a program looks for what it has saved. A pod's /dev/shm
    # outlives its containers; not every job saves on a volume.
    beside = Path(os.environ.get("CHECKPOINT_DIR") or "/dev/shm/none").parent
    return [folder / PASSED for folder in (beside, Path("/dev/shm"))]


def _has_passed(token: str) -> bool:
    for file in _passed():
        with contextlib.suppress(OSError, ValueError):
            if file.read_text() == token:
                return True
    return False


def _pass(token: str) -> None:
    for file in _passed():
        partial = file.with_name(f"{PASSED}.{os.urandom(4).hex()}")
        with contextlib.suppress(OSError):
            partial.write_text(token)
            partial.replace(file)


def run(config: Mapping[str, Any], code: str) -> None:
    """Ends this process as the preflight has."""
    status = main(config, code)
    sys.stdout.flush()
    os._exit(status)  # without waiting for threads
