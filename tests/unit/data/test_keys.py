"""trireme/data/sources/keys.py: a bucket's listing, read without the library."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, quote_plus, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from urllib3.util import Retry

from trireme.data.description import Dataset
from trireme.data.sources import Fault, source_of
from trireme.data.sources.keys import keys_of
from trireme.errors import InputError

KEYS = ["train/ü b+c&%2F", "train//d", "train/\x01", "train/e/../f", "train/g"]


class Bucket(BaseHTTPRequestHandler):
    """Lists two keys a page, encoded as S3 does."""

    asked, keys, status, encodes, text = [], KEYS, 200, True, ""

    def do_GET(self):
        self.asked.append(self.path)
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        assert query["prefix"] == "train/" and "Authorization" not in self.headers
        start = int(query.get("continuation-token", "0").removeprefix("+/"))
        contents = "".join(
            f"<Contents><Key>{quote_plus(key) if self.encodes else key}</Key><Size>3</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in self.keys[start : start + 2]
        )
        more = start + 2 < len(self.keys)
        self.answer(
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{contents}"
            + f"<NextContinuationToken>+/{start + 2}</NextContinuationToken>" * more
            + "<EncodingType>url</EncodingType>" * self.encodes
            + "</ListBucketResult>"
        )

    def answer(self, text):
        content = (self.text or text).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def bucket(untracked, monkeypatch):
    mine = type("Mine", (Bucket,), {"asked": []})
    for name in ("AWS_SKIP_SIGNATURE", "GOOGLE_SKIP_SIGNATURE"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setattr(Retry, "sleep", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), mine) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        mine.url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("GOOGLE_BASE_URL", mine.url)
        yield mine
        server.shutdown()


def dataset(bucket, kind, **fields):
    endpoint = {} if kind == "gs" else {"endpoint": bucket.url}
    return Dataset(uri=f"{kind}://bucket/train", **endpoint, **fields)


@pytest.mark.parametrize("kind", ["s3", "oss", "gs"])
def test_all_keys_of_a_public_bucket_are_listed_as_they_are(bucket, kind):
    found = list(keys_of(dataset(bucket, kind), "train/"))
    assert [key.name for key in found] == KEYS and {key.size for key in found} == {3}
    assert len(bucket.asked) == 3 and not any("Signature" in path for path in bucket.asked)


def test_a_server_need_not_encode_them(bucket):
    bucket.encodes, bucket.keys = False, ["train//d", "train/ü b+c"]
    assert [key.name for key in keys_of(dataset(bucket, "s3"), "train/")] == bucket.keys


def test_googles_are_signed_with_the_secret(bucket, untracked, monkeypatch):
    monkeypatch.delenv("GOOGLE_SKIP_SIGNATURE")
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {"client_email": "a@b.example", "private_key_id": "1", "private_key": key.decode()}
    (untracked / "secrets" / "google").mkdir(parents=True)
    (untracked / "secrets" / "google" / "service-account.json").write_text(
        json.dumps({"type": "service_account", **account})
    )
    found = list(keys_of(dataset(bucket, "gs", secret="google"), "train/"))
    assert [key.name for key in found] == KEYS
    assert all(path.startswith("/bucket?") for path in bucket.asked)
    assert all("X-Goog-Signature=" in path for path in bucket.asked)


@pytest.mark.parametrize(
    ("status", "text", "error", "said"),
    [
        (403, "<Code>AccessDenied</Code>", InputError, "access is denied (AccessDenied); name a"),
        (404, "", InputError, "there is no such bucket or object (status 404)"),
        (400, "", InputError, "the store refuses the request (status 400)"),
        (503, "<Code>SlowDown</Code>", Fault, "the store answered SlowDown"),
        (200, "<html>", InputError, "the server does not list objects as S3 does"),
        (200, "<a><Contents/></a>", InputError, "the server does not list objects as S3 does"),
    ],
)
def test_an_answer_that_lists_nothing_is_one_sentence(bucket, status, text, error, said):
    bucket.status, bucket.text = status, text
    with pytest.raises(error) as caught:
        list(keys_of(dataset(bucket, "s3"), "train/"))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_server_that_is_away_is_a_fault_without_its_url(bucket):
    with pytest.raises(Fault, match=r"^the server refuses connections$"):
        list(keys_of(Dataset(uri="s3://bucket", endpoint="http://127.0.0.1:1"), "train/"))


AMAZONS = (
    *("https://s3.amazonaws.com", "https://s3.eu-central-1.amazonaws.com"),
    *("s3.cn-north-1.amazonaws.com.cn", "s3-fips.dualstack.us-gov-west-1.amazonaws.com"),
    "https://bucket.vpce-1a2b-3c.s3.us-east-1.vpce.amazonaws.com",
    "s3express-use1-az4.us-east-1.amazonaws.com",
)
STRANGERS = (
    *("https://amazonaws.com.evil.example", "http://s3.amazonaws.com", "s3.evilamazonaws.com"),
    *("https://a1b2c3.execute-api.us-east-1.amazonaws.com", "s3.x.elb.amazonaws.com"),
    "https://s3-a1b2.execute-api.us-east-1.amazonaws.com",
)


@pytest.mark.parametrize(
    "keys", [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_WEB_IDENTITY_TOKEN_FILE",)]
)
def test_keys_of_the_environment_sign_for_the_server_that_it_names(untracked, monkeypatch, keys):
    for name in ("AWS_SKIP_SIGNATURE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in keys:
        monkeypatch.setenv(name, "AKIA")
    elsewhere = Dataset(uri="s3://bucket", endpoint="http://127.0.0.1:9000")
    for other in ("", "http://127.0.0.1:9001", "https://127.0.0.1:9000"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", other)
        with pytest.raises(
            InputError, match=f"{keys[0]} of the environment is not for that server"
        ):
            source_of(elsewhere)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    source_of(elsewhere)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    for amazons in AMAZONS:
        source_of(Dataset(uri="s3://bucket", endpoint=amazons))
    source_of(Dataset(uri="s3://bucket"))
    for other in STRANGERS:
        with pytest.raises(InputError, match="is not for that server"):
            source_of(Dataset(uri="s3://bucket", endpoint=other))
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    source_of(elsewhere)


@pytest.fixture
def instance(untracked, monkeypatch):
    """The metadata service of a machine of Amazon's that has a role; what it was asked."""
    asked = []

    class Metadata(BaseHTTPRequestHandler):
        def do_PUT(self):
            self.answer(b"token")

        def do_GET(self):
            keys = dict.fromkeys(("AccessKeyId", "SecretAccessKey", "Token"), "x")
            about = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2030-01-01T00:00:00Z"}
            keys |= about | {"Expiration": "2030-01-02T00:00:00Z"}
            self.answer(json.dumps(keys).encode() if self.path.endswith("/role") else b"role")

        def answer(self, content):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    for name in {name for name in os.environ if name.startswith("AWS_")}:
        monkeypatch.delenv(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()


def test_the_role_of_a_machine_signs_for_no_server_that_only_the_options_name(
    bucket, instance, monkeypatch
):
    monkeypatch.delenv("AWS_SKIP_SIGNATURE", raising=False)
    data = dataset(bucket, "s3")
    with pytest.raises(InputError, match=r"there are no credentials; name a dataset_secret, or"):
        list(keys_of(data, "train/"))
    assert instance == bucket.asked == []
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
    list(keys_of(data, "train/"))
    assert instance and all("X-Amz-Security-Token=x" in path for path in bucket.asked)


def test_half_of_a_pair_of_keys_is_one_sentence(untracked, monkeypatch):
    for name in ("AWS_SKIP_SIGNATURE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    with pytest.raises(
        InputError, match=r"variables of S3 do not fit together: .*SecretAccessKey$"
    ):
        source_of(Dataset(uri="s3://bucket"))
