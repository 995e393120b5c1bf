"""components/dataset/sources/hub: repositories of a server with the Hugging Face Hub's API.

The server here plays the Hub's part as https://huggingface.co/docs/hub/api and huggingface_hub 2.4
have it; https://github.com/vtuber-plan/olah was asked by hand.
"""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from trireme.data.description import of_fields
from trireme.data.sources import Fault, source_of
from trireme.data.staging import stage
from trireme.errors import InputError, TriremeError

COMMIT = "3b33bfb9fec8730f7debb90bf0326922c592af2e"
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "sub/a.txt": b"abc"}
LARGE = "model.safetensors"


class Hub(BaseHTTPRequestHandler):
    files, asked, token, more = dict(FILES), [], "", ()
    said, following = [], ""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.asked.append(self.path)
        self.said.append(self.headers["Authorization"])
        api = "/api/models/org/net"
        if self.token and self.headers["Authorization"] != f"Bearer {self.token}":
            self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        elif path == f"{api}/revision/refs%2Fpr%2F1" or path == f"{api}/revision/main":
            self.answer(200, json.dumps({"sha": COMMIT}).encode())
        elif path == f"{api}/tree/{COMMIT}":
            self.answer(200, *self.page("cursor" in query))
        elif path.startswith(f"/org/net/resolve/{COMMIT}/"):
            self.file(self.files[path.partition(f"{COMMIT}/")[2]])
        else:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})

    def page(self, is_second):
        described = [{"type": "directory", "path": "sub", "oid": "0" * 40, "size": 0}]
        for name, content in FILES.items():
            git = hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()
            one = {"type": "file", "path": name, "size": len(content), "oid": git}
            if name == LARGE:
                one["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
            described.append(one)
        oid = hashlib.sha1(b"blob 1\0x").hexdigest()
        described += [{"type": "file", "path": path, "size": 1, "oid": oid} for path in self.more]
        host, port = self.server.server_address
        following = (
            self.following or f"http://{host}:{port}/api/models/org/net/tree/{COMMIT}?cursor=2"
        )
        shown = described[2:] if is_second else described[:2]
        link = {} if is_second else {"Link": f'<{following}>; rel="next"'}
        return json.dumps(shown).encode(), link

    def file(self, content):
        if asked := self.headers["Range"]:
            start, end = map(int, asked.removeprefix("bytes=").split("-"))
            self.answer(206, content[start : end + 1])
        else:
            self.answer(200, content)

    def answer(self, status, content, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(monkeypatch, untracked):
    class Mine(Hub):
        files, asked, token, said = dict(FILES), [], "", []

    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        Mine.url = f"http://127.0.0.1:{server.server_port}"
        yield Mine
        server.shutdown()


def described(hub, uri, **fields):
    return of_fields(uri, {"endpoint": hub.url} | fields)


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("hf://org/net", {*FILES}),
        ("hf://org/net@refs%2Fpr%2F1", {*FILES}),
        ("hf://org/net/sub", {"a.txt"}),
        ("hf://org/net/sub/a.txt", {"a.txt"}),
        ("hf://org/net/config.json", {"config.json"}),
    ],
)
def test_it_is_staged_as_other_data(hub, tmp_path, uri, names):
    staged = stage(described(hub, uri), tmp_path / "data")
    found = {
        str(file.relative_to(tmp_path / "data")): file for file in (tmp_path / "data").rglob("*")
    }
    files = {name: file.read_bytes() for name, file in found.items() if file.is_file()}
    assert set(files) == names and staged.files == len(names)
    assert all(content in FILES.values() for content in files.values())
    assert all(COMMIT in path for path in hub.asked if "/resolve/" in path)


def test_a_path_that_leaves_the_folder_is_left_out_or_refused(hub, tmp_path):
    hub.more = ["../evil", "sub/../../evil", "a//b"]
    with pytest.raises(
        InputError, match=r"holds '\.\./evil', which cannot be a file's name; leave"
    ):
        stage(described(hub, "hf://org/net"), tmp_path / "data")
    for options in ({"exclude": ["../", "/"]}, {"include": ["*.json", "sub/a*", "*.safetensors"]}):
        staged = stage(described(hub, "hf://org/net", **options), tmp_path / "data")
        assert staged.files == len(FILES)
    assert not list(tmp_path.rglob("evil"))


def test_parts_are_read_from_servers_with_and_without_them(hub):
    source = source_of(described(hub, "hf://org/net"))
    entry = next(one for one in source.list() if one.name == LARGE)
    assert b"".join(source.read(entry, 3, 5)) == FILES[LARGE][3:8]
    hub.file = lambda self, content: self.answer(200, content)
    assert b"".join(source.read(entry, 3, 5)) == FILES[LARGE][3:8]


@pytest.mark.parametrize("name", ["config.json", LARGE])
def test_what_arrives_has_the_hash_that_the_repository_has(hub, name):
    source = source_of(described(hub, "hf://org/net"))
    entry = next(one for one in source.list() if one.name == name)
    hub.files[name] = bytes(len(FILES[name]))
    with pytest.raises(Fault, match="arrived with another hash"):
        list(source.read(entry, 0, entry.size))


def test_the_server_and_the_token_come_from_the_environment_too(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.token = "hf_secret"
    with pytest.raises(InputError, match=r"access is denied \(status 403\); name a dataset_secret"):
        source_of(of_fields("hf://org/net", {})).list()
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert len(source_of(of_fields("hf://org/net", {})).list()) == len(FILES)
    monkeypatch.setenv("HUB_TOKEN", "another")  # a Secret of that name
    with pytest.raises(InputError, match="see dataset_secret 'hub'"):
        source_of(of_fields("hf://org/net", {"secret": "hub"})).list()


def test_the_token_of_the_environment_goes_to_the_server_that_it_names(hub, monkeypatch):
    hub.token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for other in ("", "http://127.0.0.1:1", hub.url.replace("http:", "https:")):
        monkeypatch.setenv("HF_ENDPOINT", other)
        with pytest.raises(
            InputError, match=f"HF_TOKEN is not sent there: set HF_ENDPOINT={hub.url}"
        ):
            source_of(described(hub, "hf://org/net")).list()
        assert {*hub.said} == {None}
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.url}/")
    assert len(source_of(described(hub, "hf://org/net")).list()) == len(FILES)


def test_a_token_is_not_sent_where_a_server_says_that_more_is(hub, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_secret")
    hub.following = f"{hub.url.replace('127.0.0.1', 'localhost')}/more"
    with pytest.raises(InputError):
        source_of(described(hub, "hf://org/net", secret="hub")).list()
    assert hub.asked[-1] == "/more"
    assert hub.said == ["Bearer hf_secret", "Bearer hf_secret", None]


def test_a_secret_that_says_which_server_it_is_for_goes_to_no_other(hub, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "hf_secret")
    monkeypatch.setenv("HUB_HOST", "huggingface.co")
    with pytest.raises(InputError, match=r"is for huggingface\.co, and not for 127\.0\.0\.1"):
        source_of(described(hub, "hf://org/net", secret="hub"))
    monkeypatch.setenv("HUB_HOST", "huggingface.co 127.0.0.1")
    source_of(described(hub, "hf://org/net", secret="hub"))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("hf://org/other", "has no org/other with revision main, or it is private"),
        ("hf://org/net@gone", "has no org/net with revision gone, or it is private"),
        ("hf://org/net/nothing", "the repository has no files there at commit 3b33bfb9fec8"),
    ],
)
def test_what_is_not_there_is_one_sentence(hub, uri, said):
    with pytest.raises(InputError, match=said) as error:
        source_of(described(hub, uri)).list()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "uri", ["hf://org", "hf://datasets/org", "hf://org/net/../x", "hf://a b/c"]
)
def test_what_names_no_repository_is_refused(uri):
    with pytest.raises(InputError, match="must be hf://org/name"):
        of_fields(uri, {})


def test_a_server_that_is_away_is_one_sentence(untracked):
    dataset = of_fields("hf://org/net", {"endpoint": "http://127.0.0.1:1"})
    with pytest.raises(TriremeError, match="could not be read: the server refuses connections"):
        source_of(dataset).list()
