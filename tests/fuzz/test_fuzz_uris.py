"""Where code, data and models come from: components/dataset/, trireme/code/url.py."""

import pytest
from fuzzing import changed_text, changed_value, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.code import git
from trireme.code import url as urls
from trireme.data import base_model, description
from trireme.data.description import Dataset

DATA = [
    *("builtin://digits", "data/digits", "file:///data/digits%20all", "pvc://nas/digits"),
    *("nfs://server/export", "oss://bucket/a/b", "s3://bucket", "gs://bucket/a.csv"),
    *("hf://org/name@v1/file", "hf://datasets/org/name@refs%2Fpr%2F1", "~user/data"),
    *("https://example.org:8080/a.csv?x=1", "http://[::1]/a.csv", "https://u:p@example.org/a"),
]
OPTIONS = [
    {"endpoint": "https://storage.example.org:9000", "region": "cn-hangzhou"},
    {"include": ["*.jpg", "train/**"], "exclude": ["**/bad/"], "access": "stage"},
    {"sha256": 64 * "a", "access": "mount", "cache": "claim", "fingerprint": "content"},
]
CODE = [
    *("https://example.org/code.git", "git@example.org:team/code.git", "ssh://git@host:22/~/code"),
    *("git://host/code", "file:///srv/code.git", "./code", "bundle://mlflow/" + 40 * "a", ""),
    *("https://user:token@example.org/code.git", "https://example.org/code?private_token=x"),
]
LONG = [
    "a://" * 250_000,
    "a:" * 500_000,
    "a@" * 500_000,
    "://a:@" * 170_000,
    "https://" + 1_000_000 * "a",
]


def check_here(uri):
    description.check_here(Dataset.from_text(uri))


def check_model(uri, options):
    base_model.check(uri, "", options, claims=["nas"])


def check_code(url, revision, directory):
    git.check(url, revision, "", directory)


@fuzz(200, uri=changed_text(DATA) | st.text(), options=changed_value(OPTIONS))
def test_a_dataset_is_taken_or_refused_in_a_sentence(uri, options):
    if isinstance(options, dict):
        read_or_refused(description.described, uri, "", options)
        read_or_refused(check_model, uri, options)
    read_or_refused(check_here, uri)


@fuzz(
    200,
    url=changed_text(CODE) | st.text(),
    revision=changed_text(["main", "v1.0", "refs/heads/a", 40 * "a", "HEAD~1"]),
    directory=changed_text(["src", "a/b", "."]),
)
def test_a_repository_is_taken_or_refused_in_a_sentence(url, revision, directory):
    read_or_refused(check_code, url, revision, directory)
    read_or_refused(urls.of_submodule, url, "https://example.org/a/b.git")
    read_or_refused(urls.shown, url)


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:10])
def test_a_long_url_takes_no_longer(text):
    for read in (Dataset.from_text, urls.check, urls.shown):
        read_or_refused(read, text)
