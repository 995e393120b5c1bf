"""The verdict: what is wrong, and with which replica, by what all of them have found."""

from __future__ import annotations

from typing import Any, Iterator

from trireme.observers.preflight.replica import slow
from trireme.observers.preflight.replica.said import LADDER, problem
from trireme.observers.preflight.replica.slow import Record


def judge(records: list[Record], library: str) -> list[dict[str, Any]]:
    """Returns the problems of a job, by what each replica has found.

    Args:
        library: What they train with, whose versions have to be the same.
    """
    problems = [entry for record in records for entry in record["problems"]]
    problems += [*_unreached(records), *_versions(records, library), *_disks(records)]
    if not any(entry["fatal"] for entry in problems):
        problems += [*slow.of_networks(records), *slow.of_clocks(records)]
    problems += [*slow.of_processors(records), *slow.of_room(records)]
    return sorted(_folded(problems), key=lambda entry: LADDER.index(entry["step"]))


def _folded(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the problems, those that several replicas have alike as one."""
    alike: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for entry in problems:
        sentence = entry["sentence"].replace(entry["replica"], "")
        alike.setdefault((sentence, entry["fatal"]), []).append(entry)
    folded = []
    for first, *others in alike.values():
        if others:
            name, more = first["replica"], f"{first['replica']} (and {len(others)} more)"
            first = {**first, "sentence": first["sentence"].replace(name, more, 1)}
        folded.append(first)
    return folded


def _unreached(records: list[Record]) -> Iterator[dict[str, Any]]:
    """Yields the links that do not exist, by the replica that most of them fail for."""
    failed = [link for record in records for link in record["links"] if "error" in link]
    while failed:
        ends = [end for link in failed for end in (link["from"], link["to"])]
        # Of those that as many fail for, the one that is not reached, rather than who tries.
        culprit = max(ends, key=lambda end: (ends.count(end), failed[0]["to"] == end))
        of_culprit = [link for link in failed if culprit in (link["from"], link["to"])]
        failed = [link for link in failed if link not in of_culprit]
        link = of_culprit[0]
        record = next(candidate for candidate in records if candidate["replica"] == culprit)
        if record.get("interface"):
            yield problem(
                "interface",
                culprit,
                f"replica {culprit} is not reached at its interface {record['interface']!r} "
                f"({link['error']}): name one by which all replicas reach each other "
                "(network.interface), and allow all TCP between the job's pods",
                is_fatal=True,
            )
        else:
            yield problem(
                "port",
                culprit,
                f"replica {link['from']} cannot reach {link['to']} on port {link['port']} "
                f"({link['error']}), though both reach the rendezvous: an all-reduce takes any "
                "port, so allow all TCP between the job's pods",
                is_fatal=True,
            )


def _versions(records: list[Record], library: str) -> Iterator[dict[str, Any]]:
    names = {name for record in records for name in record["versions"]}
    for name in sorted(names):
        by_version: dict[str, list[str]] = {}
        for record in records:
            if name in record["versions"]:
                # What follows the + says how it was built.
                version = str(record["versions"][name]).partition("+")[0]
                by_version.setdefault(version, []).append(record["replica"])
        if len(by_version) < 2:
            continue
        *others, most = sorted(by_version, key=lambda version: len(by_version[version]))
        culprits = [replica for version in others for replica in by_version[version]]
        has = f"{name} {' and '.join(others)}"
        yield problem(
            "version",
            culprits[0],
            f"{_names(culprits)} {has}, {_names(by_version[most])} {most}: use one image, by its "
            "digest, for all",
            is_fatal=name in (library, "NCCL"),
        )


def _disks(records: list[Record]) -> Iterator[dict[str, Any]]:
    others_have_files = any(record["data"].get("files") for record in records)
    for record in records:
        replica, disk, data = record["replica"], record["disk"], record["data"]
        if "error" in disk:
            cause = (
                "make room on its volume"
                if disk["full"]
                else "see who owns the volume and whether it is mounted read-only (run_as_user)"
            )
            yield problem(
                "disk",
                replica,
                f"replica {replica} cannot write to CHECKPOINT_DIR {disk['folder']} "
                f"({disk['error']}): {cause}",
                is_fatal=record["saves"] and (disk["there"] or disk["full"]),
            )
        if "error" in data or (not data.get("files") and others_have_files):
            why = data.get("error", "there are no files")
            yield problem(
                "disk",
                replica,
                f"replica {replica} cannot read DATA_DIR {data.get('folder', '')} ({why}), though "
                "others can: see how its volume is mounted",
            )
    for part, name, verb in (
        ("disk", "write", "writes to CHECKPOINT_DIR"),
        ("data", "read", "reads DATA_DIR"),
    ):
        values = {
            record["replica"]: record[part][name] for record in records if name in record[part]
        }
        for replica, (value, usual) in slow.below(values, slow.SLOW).items():
            if value < slow.FAST_DISK:
                yield problem(
                    "slow",
                    replica,
                    f"replica {replica} {verb} at {value / 1e6:.1f} MB/s, the others at "
                    f"{usual / 1e6:.1f}: see what else uses its node's disk or its mount",
                )


def _names(replicas: list[str]) -> str:
    if len(replicas) == 1:
        return f"replica {replicas[0]} has"
    if len(replicas) <= 4:
        return f"replicas {', '.join(replicas)} have"
    return f"{len(replicas)} replicas such as {replicas[0]} have"
