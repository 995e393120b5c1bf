"""trireme/data/uri.py and description.py."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trireme.data.description import Dataset, check_here
from trireme.data.uri import Place, absolute, place
from trireme.errors import InputError

SEGMENT = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda text: text not in (".", ".."))


@pytest.mark.parametrize(
    ("uri", "kind", "host", "path"),
    [
        ("/data/mnist", "file", "", "/data/mnist"),
        ("data/a:b", "file", "", "data/a:b"),
        ("file:///data/a%20b", "file", "", "/data/a b"),
        ("file://localhost/data", "file", "", "/data"),
        ("builtin://digits", "builtin", "", "digits"),
        ("pvc://claim", "pvc", "claim", ""),
        ("pvc://claim/train/", "pvc", "claim", "train"),
        ("nfs://nas.example.org/export/data", "nfs", "nas.example.org", "export/data"),
        ("oss://bucket/a b/100%25", "oss", "bucket", "a b/100%25"),
        ("s3://My_Bucket.1/train", "s3", "My_Bucket.1", "train"),
        ("S3://bucket", "s3", "bucket", ""),
        ("gs://bucket/q?x#y", "gs", "bucket", "q?x#y"),
        ("https://example.org:8443/a/b%20c.csv?version=2", "http", "example.org", "b c.csv"),
    ],
)
def test_a_uri_is_taken_apart(uri, kind, host, path):
    assert place(uri) == Place(kind, host, path)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "names nothing"),
        ("a\0b", "names nothing"),
        ("builtin://nothing", "built in are builtin://digits"),
        ("ftp://host/file", "ftp:// is not supported"),
        ("file://host/data", "file:///path"),
        ("file://data", "file:///path"),
        ("pvc://Claim/data", "the name of a claim"),
        ("pvc://", "the name of a claim"),
        ("nfs:///export", "a server"),
        ("nfs://a b/export", "a server"),
        ("s3://b/data", "a bucket"),
        ("s3://bucket/../other", "must not hold"),
        ("oss://bucket/a//b", "must not hold"),
        ("pvc://claim/a/./b", "must not hold"),
        ("https://example.org", "must name a file"),
        ("https://example.org/folder/", "must name a file"),
        ("https://example.org/..", "must name a file"),
        ("https://example.org/%2e%2e", "must name a file"),
        ("https://example.org/a%2Fb", "must name a file"),
        ("https://[/data", "is not a URL"),
        ("https://example.org:99999/a", "is not a URL"),
        ("https:///a.csv", "is not a URL"),
        ("https://example.org/a b.csv", "is not a URL"),
    ],
)
def test_what_is_no_dataset_is_refused(uri, said):
    with pytest.raises(InputError, match=r"^dataset_uri ") as caught:
        check_here(Dataset.from_text(uri))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "https://me:hidden@example.org/a.csv",
        "https://hidden@example.org/a.csv",
        "s3://me:hidden@bucket/a",
        "https://example.org/a.csv?X-Amz-Signature=hidden",
        "https://example.org/a.csv?x=1&token=hidden",
        "https://example.org/a.csv?private_token=hidden",
        "https://example.org/a.csv?access_key=hidden",
        "https://example.org/a.csv?key=hidden",
        "https://me:hidden@[bad/a.csv",
        "ftp://me:hidden@host/a.csv",
        "builtin://me:hidden@digits",
        "file://me:hidden@host/a.csv",
        "https://example.org/a.csv?sig=hidden&se=2",
    ],
)
def test_a_uri_that_holds_a_secret_is_refused_and_not_repeated(uri):
    with pytest.raises(InputError, match="name a Secret") as caught:
        Dataset.from_text(uri)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        Dataset(uri=uri)
    assert "hidden" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_place_or_refused_in_a_sentence(text):
    try:
        found = place(text)
    except InputError as error:
        assert str(error).startswith("dataset_uri ") and "\n" not in str(error)
    else:
        assert found.kind == "file" or "://" in text


@given(st.sampled_from(["s3", "oss", "gs", "pvc", "nfs"]), st.lists(SEGMENT, max_size=4))
def test_the_path_in_a_bucket_is_taken_as_it_is(scheme, segments):
    assert place(f"{scheme}://bucket/{'/'.join(segments)}").path == "/".join(segments)


@given(st.sampled_from(["s3", "pvc", "nfs"]), st.lists(st.sampled_from(["..", ".", "", "a"])))
def test_no_path_leaves_its_bucket(scheme, segments):
    try:
        path = place(f"{scheme}://bucket/{'/'.join(segments)}").path
    except InputError:
        return
    assert ".." not in path.split("/") and not path.startswith("/")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"uri": "pvc://claim", "access": "stage"}, "which is mounted"),
        ({"uri": "gs://bucket", "access": "mount"}, "access 'mount' goes with"),
        ({"uri": "/data", "access": "mount"}, "access 'mount' goes with"),
        ({"uri": "nfs://server/a", "include": ["*.jpg"]}, "include and exclude do not go"),
        ({"uri": "gs://bucket", "region": "us-east-1"}, "region goes with"),
        ({"uri": "oss://bucket"}, "needs endpoint or region"),
        ({"uri": "s3://bucket", "sha256": "0" * 64}, "sha256 goes with"),
        ({"uri": "https://a.org/b", "sha256": "abc"}, "64 hexadecimal digits"),
        ({"uri": "/data", "secret": "name"}, "secret does not go with file"),
        ({"uri": "s3://bucket", "secret": "No Name"}, "the name of a Secret"),
        ({"uri": "s3://bucket", "secret": "a", "access": "mount"}, "of a service account"),
        ({"uri": "s3://bucket", "endpoint": "http://u:p@host"}, "must be a server"),
        ({"uri": "s3://bucket", "include": ["../*"]}, "must not hold '..'"),
        ({"uri": "s3://bucket", "include": ["/a"]}, "relative paths"),
        ({"uri": "s3://bucket", "include": ["/"]}, "relative paths"),
        ({"uri": "s3://bucket", "exclude": [""]}, "relative paths"),
        ({"uri": "s3://bucket", "exclude": ["/a"]}, "relative paths"),
        ({"uri": "s3://bucket", "exclude": ["[z-a]"]}, "is not a pattern"),
        ({"uri": "s3://bucket", "exclud": []}, "Extra inputs"),
        ({"uri": "s3://bucket", "include": "*.jpg"}, "valid list"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields, said):
    with pytest.raises(ValidationError) as caught:
        Dataset(**fields)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({"uri": "pvc://claim"}, "mount"),
        ({"uri": "nfs://server/a"}, "mount"),
        ({"uri": "s3://bucket"}, "stage"),
        ({"uri": "s3://bucket", "access": "mount"}, "mount"),
        ({"uri": "/data"}, "stage"),
    ],
)
def test_the_way_follows_from_the_kind(fields, way):
    assert Dataset(**fields).way == way


def test_a_bare_oss_uri_says_what_it_needs():
    with pytest.raises(InputError, match="dataset_uri 'oss://bucket': oss:// needs endpoint"):
        Dataset.from_text("oss://bucket")


@pytest.mark.parametrize(
    "uri", ["", "/data/a", "~/a", "s3://bucket/a", "builtin://digits", "pvc://claim", "file:///a"]
)
def test_what_means_the_same_in_any_folder_stays(uri):
    assert absolute(uri) == uri


def test_a_relative_path_gets_its_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert absolute("a/b") == f"{tmp_path}/a/b"
    assert Path(absolute("../c")).resolve() == tmp_path.parent / "c"
