"""The host of a replica: memory, disks, processors, versions."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Iterator, Mapping

MiB = 1 << 20
WRITTEN = 32 * MiB  # bytes, at most, that are written to a disk, in TIME seconds
READ = 128 * MiB  # likewise
TIME = 1.0
SLICES, SLICE = 3, 0.2  # of a processor's work, of which the best counts; seconds of one
SMALLEST = 64 << 10  # bytes of a file that says how fast a disk is
LOOKED_AT = 2000  # files of a dataset, at most

PACKAGES = {
    **{name: name for name in ("torch", "tensorflow", "jax", "jaxlib", "mpi4py", "numpy")},
    "tensorflow-cpu": "tensorflow",
    "xgboost": "xgboost",
    "xgboost-cpu": "xgboost",
    "nvidia-nccl-cu12": "NCCL's package",
    "nvidia-nccl-cu13": "NCCL's package",
}
"""What distributions are called here: some have several for one package."""


def facts(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Returns what there is to know of this replica alone."""
    checkpoints, data = environment.get("CHECKPOINT_DIR"), environment.get("DATA_DIR")
    return {
        "host": platform.node(),
        "node": node(),
        "versions": versions(),
        "cores": cores(),
        "speed": speed(),
        "memory": free_memory(),
        "shm": shared_memory(),
        "disk": disk(Path(checkpoints)) if checkpoints else {},
        "data": dataset(Path(data)) if data else {},
    }


def node() -> str:
    """Returns what tells the node that this replica is on from others."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def versions() -> dict[str, str]:
    """Returns the versions of Python, of the packages that train, and of the driver."""
    by_name = {"python": ".".join(platform.python_version_tuple()[:2])}
    for distribution, name in PACKAGES.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            by_name[name] = str(metadata.version(distribution))
    with contextlib.suppress(OSError, IndexError):
        line = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
        by_name["NVIDIA driver"] = line.split("Kernel Module")[1].split()[0]
    return by_name


def cores() -> float:
    """Returns how many processors this process may use at once."""
    count = float(len(os.sched_getaffinity(0)))
    for folder in _cgroups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            count = min(count, int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError):
            quota = (folder / "cpu.cfs_quota_us").read_text()
            if int(quota) > 0:
                count = min(count, int(quota) / int((folder / "cpu.cfs_period_us").read_text()))
    return round(count, 2)


def speed() -> float:
    """Returns how much one thread works in a second: this loop, so many million times."""
    best = 0.0
    for _ in range(SLICES):
        count, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < SLICE:
            for _ in range(10_000):
                pass
            count += 1
        best = max(best, count / elapsed)
    return best / 100


def free_memory() -> int:
    """Returns the bytes that this replica may still take."""
    free = 0
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        free = int(line.split()[1]) * 1024
    names = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for folder in _cgroups("memory"):
        for limit, used in names:
            with contextlib.suppress(OSError, ValueError):  # "max": no limit
                room = int((folder / limit).read_text()) - int((folder / used).read_text())
                free = min(free, room)
    return free


def shared_memory() -> dict[str, int]:
    """Returns the bytes of /dev/shm, and those that are free."""
    try:
        stats = os.statvfs("/dev/shm")
    except OSError:
        return {}
    return {"size": stats.f_blocks * stats.f_frsize, "free": stats.f_bavail * stats.f_frsize}


def disk(folder: Path) -> dict[str, Any]:
    """Returns how many bytes a second can be written to a folder, flushed, and read again."""
    was_there = folder.is_dir()
    file = folder / f".trireme-preflight-{secrets.token_hex(8)}"
    try:
        if not was_there:
            folder.mkdir(parents=True)
        try:
            written, elapsed = _write(file)
            read, took_read = _read([file])
        finally:
            with contextlib.suppress(OSError):
                file.unlink()
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = (error.strerror or str(error)).lower()
        return {"error": why, "full": is_full, "there": was_there, "folder": str(folder)}
    return {"write": written / elapsed, "read": read / took_read, "folder": str(folder)}


def dataset(folder: Path) -> dict[str, Any]:
    """Returns how many bytes a second can be read of the first files of a dataset."""
    if not folder.is_dir():
        return {"files": 0, "folder": str(folder)}
    try:
        files = list(_files(folder))
        large = [file for file in files if file.stat().st_size >= SMALLEST]
        read, elapsed = _read(large)
    except OSError as error:
        return {"error": (error.strerror or str(error)).lower(), "folder": str(folder)}
    record = {"files": len(files), "folder": str(folder)}
    return {**record, "read": read / elapsed} if read >= MiB else record


def _files(folder: Path) -> Iterator[Path]:
    until, count = time.monotonic() + TIME, 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(parent, name)
            if file.is_file():
                yield file
                count += 1
            if count >= LOOKED_AT or time.monotonic() > until:
                return


def _write(file: Path) -> tuple[int, float]:
    block, written, began = os.urandom(MiB), 0, time.perf_counter()
    with file.open("wb", buffering=0) as stream:
        while written < WRITTEN and time.perf_counter() - began < TIME:
            written += stream.write(block)
            os.fsync(stream.fileno())
        # Read again, it is to come from the disk.
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return written, time.perf_counter() - began


def _read(files: list[Path]) -> tuple[int, float]:
    read, began = 0, time.perf_counter()
    for file in files:
        with file.open("rb", buffering=0) as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while block := stream.read(MiB):
                read += len(block)
                if read >= READ or time.perf_counter() - began > TIME:
                    return read, time.perf_counter() - began
    return read, max(time.perf_counter() - began, 1e-9)


def _cgroups(controller: str) -> list[Path]:
    """Returns where the limits of this process may be, in version 2 and version 1."""
    places = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup", controller)]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                places.append(Path(f"/sys/fs/cgroup{path}"))
            elif controller in controllers.split(","):
                places.append(Path(f"/sys/fs/cgroup/{controller}{path}"))
    return places
