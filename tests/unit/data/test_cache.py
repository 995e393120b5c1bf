"""components/dataset: the cache and what it is made of, on files of this machine."""

import errno
import hashlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fingerprints import fingerprint
from hypothesis import example, given
from hypothesis import strategies as st

from trireme.data import cache_entry, copying, lock
from trireme.data.cache import fetch
from trireme.data.copy_journal import CopyJournal
from trireme.data.description import Dataset
from trireme.data.fingerprint import BLOCK, dataset_hash, file_hash
from trireme.data.listing import Entry, chosen, in_order, packed, refuse_hostile, unpacked
from trireme.data.lock import locked
from trireme.data.patterns import selector
from trireme.data.sources.local import LocalSource
from trireme.data.staging import stage
from trireme.errors import InputError, TriremeError
from trireme.text.units import in_words

ENTRIES = st.builds(
    Entry,
    st.binary(min_size=1).filter(lambda name: b"\0" not in name).map(os.fsdecode),
    st.integers(0, 2**60),
    st.text("0123456789abcdef-T:"),
)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def here(path, **fields):
    return Dataset(uri=str(path), **fields)


def test_the_fingerprint_is_as_its_format_says(tmp_path):
    large = os.urandom(BLOCK) + b"rest"
    (tmp_path / "b").write_bytes(large)
    (tmp_path / "B").write_text("small")
    sha = hashlib.sha256
    blocks = sha(sha(large[:BLOCK]).digest() + sha(large[BLOCK:]).digest()).hexdigest()
    lines = f"B\0005\0{sha(b'small').hexdigest()}\nb\000{len(large)}\0{blocks}\n"
    expected = f"sha256:{sha(lines.encode()).hexdigest()}"
    assert fingerprint(tmp_path, full=True) == expected


def test_a_copy_has_the_fingerprint_of_its_source(source, cache):
    (source / "large").write_bytes(os.urandom(BLOCK * 2 + 1))
    (source / "exact").write_bytes(os.urandom(BLOCK))
    (source / "empty").write_bytes(b"")
    staged = fetch(here(source), cache)
    assert staged.fingerprint == fingerprint(source, full=True)
    assert (staged.files, staged.bytes) == (5, 3 * BLOCK + 12)


def test_a_fingerprint_by_times_sees_a_change_and_is_told_from_one_by_content(source):
    before = fingerprint(source)
    assert before.startswith("mtime:") and fingerprint(source) == before
    os.utime(source / "a.txt", (1, 1))
    assert fingerprint(source) != before


def test_two_sizes_with_one_hash_are_two_datasets():
    digests = [hashlib.sha256(b"x").digest(), hashlib.sha256(b"y").digest()]
    content = file_hash(digests).hex()
    assert content == hashlib.sha256(b"".join(digests)).hexdigest()
    large, small = Entry("a", BLOCK + 1, ""), Entry("a", 64, "")
    assert dataset_hash([(large, content)]) != dataset_hash([(small, content)])


def test_an_unchanged_source_is_not_read_again(source, cache, monkeypatch):
    first = fetch(here(source), cache)
    monkeypatch.setattr("trireme.data.sources.local.LocalSource.read", None)
    assert fetch(here(source), cache) == first._replace(copied=0)


def test_content_that_changed_behind_its_old_time_is_seen(source, cache):
    info = (source / "a.txt").stat()
    first = fetch(here(source), cache)
    (source / "a.txt").write_text("FIRST")
    os.utime(source / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert fetch(here(source), cache).fingerprint != first.fingerprint


def test_what_others_use_is_not_written_to(source, cache):
    first = fetch(here(source), cache)
    (source / "a.txt").write_text("FIRST")
    second = fetch(here(source), cache)
    assert second.copied == 1
    assert Path(first.path, "folder/b.txt").samefile(Path(second.path, "folder/b.txt"))
    assert Path(first.path, "a.txt").read_text() == "first"


def test_a_tree_that_was_deleted_is_copied_again(source, cache):
    first = fetch(here(source), cache)
    (cache / "trees" / first.fingerprint[7:]).rename(cache / "gone")
    assert fetch(here(source), cache).copied == 2


def test_a_record_that_cannot_be_read_is_none(source, cache):
    fetch(here(source), cache)
    (record,) = (cache / "sources").iterdir()
    record.write_bytes(b"{}\nrubbish")
    assert fetch(here(source), cache).files == 2


def test_the_place_of_a_run_is_a_link_that_is_replaced(source, cache, tmp_path):
    destination = tmp_path / "run" / "data"
    destination.mkdir(parents=True)
    (destination / "old").write_text("of before")
    stage(here(source), destination, cache)
    assert destination.is_symlink() and (destination / "a.txt").read_text() == "first"
    stage(here(source / "folder"), destination, cache)
    assert [file.name for file in destination.iterdir()] == ["b.txt"]
    assert [path.name for path in destination.parent.iterdir()] == ["data"]


def test_a_cache_in_the_dataset_is_refused(source):
    with pytest.raises(InputError, match="holds the folder that it would be copied to"):
        fetch(here(source), source / "cache")
    assert not (source / "cache").exists()


def test_a_cache_that_cannot_be_made_is_said_in_a_sentence(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"dataset_uri .* cannot be copied to") as caught:
        fetch(here(source), tmp_path / "file" / "cache")
    assert caught.value.exit_status == 1


def test_nothing_left_by_the_patterns_is_said(source, cache):
    with pytest.raises(InputError, match="holds no files that include and exclude select"):
        fetch(here(source, include=["*.jpg"]), cache)


def test_a_link_to_its_own_folder_is_refused(source, cache):
    (source / "folder" / "again").symlink_to(source)
    with pytest.raises(
        InputError, match=r"folder/again.* is a link to a directory that contains it"
    ):
        fetch(here(source), cache)


def test_two_links_to_one_folder_are_two_folders(source, cache, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.txt").write_text("third")
    for name in ("one", "two"):
        (source / name).symlink_to(tmp_path / "elsewhere")
    assert fetch(here(source), cache).files == 4


def test_a_pipe_is_refused_by_name(source, cache):
    os.mkfifo(source / "pipe")
    with pytest.raises(InputError, match=r"source/pipe.* neither a file nor a directory"):
        fetch(here(source), cache)


@pytest.mark.parametrize(
    "name",
    ["../a", "a/../../b", "/etc/passwd", "a//b", "", ".", "a/.", "a\0b", "x" * 256, "a/" * 2000],
)
def test_names_that_leave_the_directory_are_refused(name):
    with pytest.raises(InputError, match="cannot be a file's name") as caught:
        refuse_hostile("s3://bucket", ["fine", name])
    assert len(str(caught.value)) < 600


ODD = st.lists(st.sampled_from(["a", "b", "..", ".", "/", "*", "?", "[", "]", "\0", "\n", "é"]))


@example("a/")
@example("/" + "b" * 2_000)
@example("[*]" * 600)
@given(ODD.map("".join) | st.text())
def test_what_can_be_no_file_is_left_out_by_the_pattern_that_is_advised(name):
    listed = [Entry(name, 3, ""), Entry("q/r", 1, "")]
    try:
        named = [entry.name for entry in chosen("s3://b", listed, selector([], []), controls=False)]
        assert {"q/r"} <= set(named) <= {"q/r", name}
    except InputError as error:
        exclude = json.loads(str(error).partition("with dataset_options ")[2])["exclude"]
        checked = Dataset(uri="s3://bucket", exclude=exclude).exclude
        left = chosen("s3://b", listed, selector([], checked), controls=False)
        assert [entry.name for entry in left] == ["q/r"]


def test_what_is_not_wanted_is_not_judged():
    listed = [Entry(name, 1, "") for name in ("a/b", "a//b", "/a", "../a", "x" * 300, "d", "d/e")]
    for include, exclude in ((["a/b"], []), ([], ["a//**", "/", "../", "x*", "d"])):
        left = chosen("s3://b", listed, selector(include, exclude))
        assert {entry.name for entry in left} <= {"a/b", "d/e"}
    with pytest.raises(
        InputError, match=r"holds '\.\./a', which cannot be a file's name; leave it"
    ):
        chosen("s3://b", listed, selector(["**"], ["/"]))


def test_objects_that_stand_for_folders_are_left_out():
    def left(listed, *exclude):
        return [entry.name for entry in chosen("s3://b", listed, selector([], list(exclude)))]

    listed = [Entry("a", 0, ""), Entry("a/b", 0, ""), Entry("a/b/c", 1, ""), Entry("d", 0, "")]
    assert left(listed) == ["a/b/c", "d"]
    assert left(listed, "a/") == ["d"]
    both = [Entry("a", 1, ""), Entry("a/b", 1, "")]
    with pytest.raises(InputError, match="holds both 'a' and objects below it"):
        left(both)
    assert (left(both, "a"), left(both, "a/")) == (["a/b"], ["a"])


@given(st.lists(ENTRIES))
def test_a_listing_is_packed_and_unpacked(entries):
    assert list(unpacked(packed(entries))) == entries
    assert sorted(in_order(entries)) == sorted(entries)


def test_a_journal_keeps_what_is_still_meant(tmp_path):
    a, b, c = (Entry(name, 1, "1") for name in "abc")
    with CopyJournal(tmp_path, [a, b]) as journal:
        journal.add(0, 0, b"a" * 32)
        journal.add(1, 2, b"b" * 32)
    (tmp_path / "blocks").open("ab").write(b"cut off")
    assert CopyJournal(tmp_path, [a, b]).finished == {(0, 0): b"a" * 32, (1, 2): b"b" * 32}
    assert CopyJournal(tmp_path, [c, b]).finished == {(1, 2): b"b" * 32}
    changed = [a._replace(version="2"), b._replace(size=2)]
    assert CopyJournal(tmp_path, changed).finished == {}


def hold(file, ready):
    with locked(file, lambda: None):
        ready.set()
        threading.Event().wait()


@pytest.mark.slow
def test_a_killed_holder_gives_the_lock_free(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, told = context.Event(), []
    process = context.Process(target=hold, args=(tmp_path / "lock", ready))
    process.start()
    try:
        assert ready.wait(30)
        threading.Timer(0.5, process.kill).start()
        with locked(tmp_path / "lock", lambda: told.append("waiting")):
            assert process.exitcode is not None or not process.is_alive()
    finally:
        process.kill()
        process.join()
    assert told == ["waiting"]


def marker(host, pid, duration):
    """Returns what a holder writes into its lease's file."""
    lines = [f"pid={pid}", f"host={host}", "mode=lease", "token=1", f"duration={duration!r}"]
    return "\n".join(["filelock/2", *lines, ""])


def test_a_heartbeat_from_another_machine_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "STALE", 0.5)
    monkeypatch.setattr(lock, "HEARTBEAT", 0.1)
    holder, stop = tmp_path / "lock.lease", threading.Event()
    holder.write_text(marker("another-machine", 1, 0.5))

    def beat():
        while not stop.wait(0.05):
            os.utime(holder)

    thread = threading.Thread(target=beat)
    thread.start()
    threading.Timer(1.0, stop.set).start()
    with locked(tmp_path / "lock", lambda: None):
        assert stop.is_set()
    thread.join()
    assert not holder.exists()


def test_a_lease_of_a_process_that_is_gone_is_a_dead_ones(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    holder = tmp_path / "lock.lease"
    with locked(tmp_path / "lock", lambda: None):
        host = re.search("host=(.*)", holder.read_text())[1]
    holder.write_text(marker(host, process.pid, lock.STALE))
    started = time.monotonic()
    with locked(tmp_path / "lock", lambda: None):
        assert holder.exists()
    assert not holder.exists()
    assert time.monotonic() - started < lock.STALE / 2


def test_on_a_full_disk_the_lock_has_to_do(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock.SoftFileLease, "acquire", full)
    with locked(tmp_path / "lock", lambda: None):
        assert not (tmp_path / "lock.lease").exists()


NODE = """
import fcntl, os, socket, sys, time
from pathlib import Path
from trireme.data import copying, lock, cache_entry

fcntl.flock = lambda *_: None  # as on a mount with nolock: each node has its own
socket.gethostname = lambda: sys.argv[2]
directory = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    with lock.locked(directory / "lock", lambda: None):
        inside = os.open(directory / "inside", os.O_CREAT | os.O_EXCL)  # fails if another is, too
        time.sleep(0.02)
        os.close(inside)
        (directory / "inside").unlink()
"""


def test_one_node_at_a_time_where_locks_are_each_nodes_own(tmp_path):
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", NODE, str(tmp_path), f"node-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for node in nodes:
        assert node.stdout.readline() == "ready\n"
    for node in nodes:
        node.stdin.write("go\n")
        node.stdin.flush()
    errors = [node.communicate(timeout=120)[1] for node in nodes]
    assert [(node.returncode, error) for node, error in zip(nodes, errors, strict=True)] == [
        (0, "")
    ] * 6
    assert {path.name for path in tmp_path.iterdir()} <= {"lock"}


def killed_in(step, source, cache):
    """Stages in a process that is killed at the first call of a step of finishing."""

    def run():
        original = getattr(cache_entry, step)

        def last(*arguments, **options):
            original(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(cache_entry, step, last)
        fetch(here(source), cache)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["close_folders", "remove"])
def test_a_copy_killed_at_its_very_end_is_not_lost(step, source, cache, monkeypatch):
    killed_in(step, source, cache)
    monkeypatch.setattr(LocalSource, "read", lambda *_: pytest.fail("it is read again"))
    staged = fetch(here(source), cache)
    assert staged.fingerprint == fingerprint(source, full=True)
    assert sorted(file.name for file in Path(staged.path).rglob("*.txt")) == ["a.txt", "b.txt"]


def test_on_a_full_disk_room_is_made_before_anybody_else_goes_on(source, cache, monkeypatch):
    held = []

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def removed(directory):
        held.append(list(cache.glob("locks/*.lease")) != [])

    monkeypatch.setattr(copying, "_write", full)
    monkeypatch.setattr(cache_entry, "remove", removed)
    with pytest.raises(TriremeError, match="there is no space left; what was copied has been"):
        fetch(here(source), cache)
    assert held == [True]


def test_after_an_interrupt_nobody_writes_any_more(source, cache, monkeypatch):
    (source / "large").write_bytes(os.urandom(4 * BLOCK))
    reading = threading.Event()
    read = LocalSource.read

    def slow(*arguments):
        reading.set()
        for piece in read(*arguments):
            time.sleep(0.005)
            yield piece

    def interrupt():
        reading.wait(30)
        time.sleep(0.2)  # by then all threads read
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LocalSource, "read", slow)
    before, handler = threading.active_count(), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch(here(source), cache)
    finally:
        signal.signal(signal.SIGINT, handler)
        thread.join()
    limit = time.monotonic() + 30  # one that was just being started ends without having written
    while threading.active_count() > before and time.monotonic() < limit:
        time.sleep(0.01)
    assert threading.active_count() <= before  # others' may have ended


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else can write there by mistake")
@pytest.mark.parametrize("what", ["changed", "added", "removed", "added below"])
def test_a_tree_that_somebody_has_written_to_is_made_anew(what, source, cache):
    """As only root can, whom read-only files do not hold back."""
    before = fetch(here(source), cache)
    tree = Path(before.path)
    tree.chmod(0o755)
    (tree / "folder").chmod(0o755)
    if what == "changed":
        (tree / "a.txt").chmod(0o644)
        (tree / "a.txt").write_text("FIRST")
    elif what == "removed":
        (tree / "a.txt").unlink()
    else:
        (tree / ("folder" if what == "added below" else ".") / "new.txt").write_text("new")
    after = fetch(here(source), cache)
    assert after.fingerprint == before.fingerprint == fingerprint(Path(after.path), full=True)
    assert fetch(here(source), cache).copied == 0
    assert [path.name for path in tree.parent.iterdir()] == [tree.name]


def test_what_is_staged_can_be_read_by_others_whatever_the_umask(source, cache):
    before = os.umask(0o077)
    try:
        tree = Path(fetch(here(source), cache).path)
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in tree.rglob("*.txt")} == {0o444}
    assert (tree / "folder").stat().st_mode & 0o777 == 0o555
    assert tree.parent.stat().st_mode & 0o755 == 0o755


def test_sizes_in_words():
    assert [in_words(size) for size in (0, 1023, 1536, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 GiB",
    ]
