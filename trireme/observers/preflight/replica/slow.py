"""Slow and small parts, by what all replicas have measured: each against the others."""

from __future__ import annotations

from statistics import median, median_low
from typing import Any, Iterator, NamedTuple

from trireme.observers.preflight.replica.said import problem

Record = dict  # of a replica, see main.py


class Network(NamedTuple):
    """How a replica is connected: it is as good as the best of its links, each way."""

    sends: float
    receives: float
    resent: float
    answer: float


SLOW = 1 / 3  # of the median of all replicas
SLOW_CPU = 2 / 3
LATE = 0.005  # seconds that an answer may take, in any network that replicas are put in
RESENT = 0.005  # of all packets that may be sent again
SKEW = 1.0  # seconds that clocks may differ by
SMALL_SHM = 64 << 20  # bytes: what a container has by default, of which nothing is in use yet
LEAST_RATE = 12.5e6  # bytes a second, which a link has in any network that replicas are put in
FAST_DISK = 50e6  # bytes a second that are never called slow


def network(records: list[Record]) -> dict[str, Network]:
    """Returns how each replica is connected, in bytes a second, shares and seconds."""
    links = [link for record in records for link in record["links"] if "rate" in link]
    by_name = {}
    for name in [record["replica"] for record in records]:
        out = [link for link in links if link["from"] == name]
        into = [link for link in links if link["to"] == name]
        if out and into:
            by_name[name] = Network(
                max(link["rate"] for link in out),
                max(link["rate"] for link in into),
                max(min(link["resent"] for link in ends) for ends in (out, into)),
                min(link["answer"] for link in out + into),
            )
    return by_name


def of_networks(records: list[Record]) -> Iterator[dict[str, Any]]:
    """Yields what is slow of what connects the replicas."""
    figures = network(records)
    if not figures:
        return
    rate = {name: min(figure.sends, figure.receives) for name, figure in figures.items()}
    is_pair = len(figures) == 2
    for name in rate:
        if not rate[name]:
            subject, whose = (
                ("each replica", "an") if is_pair else (f"replica {name}", "its network")
            )
            yield problem(
                "size",
                name,
                f"{subject} answers, but nothing large comes through: {whose} interface has a "
                "larger MTU than what is on the way; give all the same, and the overlay's room",
                is_fatal=True,
            )
            return
    slow = below(rate, SLOW)
    usual_answer = median_low(figure.answer for figure in figures.values())
    for name, figure in figures.items():
        facts, advice = [], ""
        if figure.answer > LATE and (is_pair or figure.answer > 3 * usual_answer):
            facts.append(f"answers after {1000 * figure.answer:.1f} ms")
            advice = "put all replicas into one zone and network"
        if figure.resent > RESENT:
            facts.append(f"loses {100 * figure.resent:.1f} % of its packets")
            advice = advice or "see its node's network card, cable and switch port"
        if name in slow or (is_pair and rate[name] < LEAST_RATE):
            others = f", the others {speed(slow[name][1])}" if name in slow else ""
            facts.append(f"moves {speed(rate[name])}{others}")
            advice = advice or "see what limits its node's network, or take another node"
        if facts:
            subject = "each replica" if is_pair else f"replica {name}"
            yield problem("slow", name, f"{subject} {', '.join(facts)}: {advice}")
            if is_pair:
                return


def of_clocks(records: list[Record]) -> Iterator[dict[str, Any]]:
    """Yields which clocks differ."""
    advice = "by NTP on its node; tokens and logs go by it"
    if len(records) == 2:  # of which nobody knows whose is right
        one, other = records
        apart = abs(one["clock"] - other["clock"])
        if apart > SKEW:
            yield problem(
                "slow",
                one["replica"],
                f"the clocks of replicas {one['replica']} and {other['replica']} differ by "
                f"{apart:.1f} s: set each {advice}",
            )
        return
    usual = median(record["clock"] for record in records)
    for record in records:
        ahead = record["clock"] - usual
        if abs(ahead) > SKEW:
            direction = "ahead of" if ahead > 0 else "behind"
            yield problem(
                "slow",
                record["replica"],
                f"the clock of replica {record['replica']} is {abs(ahead):.1f} s {direction} the "
                f"others': set it {advice}",
            )


def of_processors(records: list[Record]) -> Iterator[dict[str, Any]]:
    """Yields which replicas compute more slowly than those that have asked for as much."""
    for like in _alike(records):
        cores = {record["replica"]: record["cores"] for record in like}
        slow, few = _slow_nodes(like), below(cores, SLOW_CPU)
        for name in cores:
            facts = []
            if name in few:
                facts.append("has {:g} processors, the others {:g}".format(*few[name]))
            if name in slow:
                value, usual = slow[name]
                facts.append(f"computes at {value / usual:.0%} of the others' speed")
            if facts:
                yield problem(
                    "slow",
                    name,
                    f"replica {name} {' and '.join(facts)}: see what else runs on its node, and "
                    "its CPU limit",
                )


def _slow_nodes(records: list[Record]) -> dict[str, tuple[float, float]]:
    """Returns the speed of replicas that are slower than those on other nodes, and theirs."""
    # Those on one node take the time from each other.
    slower = {}
    for record in records:
        others = [peer["speed"] for peer in records if peer["node"] != record["node"]]
        if others and record["speed"] < SLOW_CPU * median(others):
            slower[record["replica"]] = (record["speed"], median(others))
    return slower


def of_room(records: list[Record]) -> Iterator[dict[str, Any]]:
    """Yields which replicas have little memory."""
    for record in records:
        replica, shm = record["replica"], record["shm"]
        if shm and shm["free"] <= SMALL_SHM:
            yield problem(
                "small",
                replica,
                f"replica {replica} has {shm['free'] >> 20} MiB free of {shm['size'] >> 20} in "
                "/dev/shm: data loaders and NCCL need more, give shared_memory",
            )
    for like in _alike(records):
        memory = {record["replica"]: float(record["memory"]) for record in like}
        for replica, (value, usual) in below(memory, SLOW).items():
            yield problem(
                "small",
                replica,
                f"replica {replica} has {value / 2**30:.1f} GiB of memory free, the others "
                f"{usual / 2**30:.1f}: see what else runs on its node",
            )


def _alike(records: list[Record]) -> list[list[Record]]:
    """Returns the replicas that have asked for the same, together."""
    by_request: dict[str, list[Record]] = {}
    for record in records:
        by_request.setdefault(record["asked"], []).append(record)
    return list(by_request.values())


def below(values: dict[str, float], share: float) -> dict[str, tuple[float, float]]:
    """Returns who has less than a share of what is usual: how much, and what is usual."""
    low = {}
    for name, value in values.items():
        others = [other for peer, other in values.items() if peer != name]
        if others and value < share * median(others):
            low[name] = (value, median(others))
    return low


def speed(rate: float) -> str:
    """Returns bytes a second as networks count: bits."""
    bits = rate * 8
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.1f} Mbit/s"
