"""What is taken for a URL or a revision, and that nothing else gets through."""

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from trireme.code import revision as revisions
from trireme.code import url as urls
from trireme.errors import InputError

HOSTS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}(\.[a-z0-9]{1,9}){0,2}", fullmatch=True)
PORTS = st.one_of(st.just(""), st.integers(1, 65535).map(":{}".format))
PATHS = st.from_regex(r"[A-Za-z0-9._~-]{1,9}(/[A-Za-z0-9._~@:%-]{1,9}){0,3}", fullmatch=True)
SECRETS = st.from_regex(r"[A-Za-z0-9%/+=]{8,20}", fullmatch=True)
ALMOST_URLS = st.text("htpsgiefl:/@.-?#\\ \n\x00a1[]~", max_size=30)


def refused(url: str) -> str:
    """Returns why a URL is refused; empty where it is not."""
    try:
        urls.check(url)
    except InputError as error:
        return str(error)
    return ""


@given(st.sampled_from(["https", "http", "git", "ssh"]), HOSTS, PORTS, PATHS)
def test_urls_of_servers_are_accepted(scheme, host, port, path):
    # As in https://ada:1234/567@host, whose password begins like a port.
    assume("." in host or not port or "@" not in path)
    url = f"{scheme}://{host}{port}/{path}"
    assert refused(url) == ""
    assert urls.server(url) == (scheme, host, f"{scheme}://{host}{port}")
    assert urls.source(url) == url


@given(HOSTS, PATHS)
def test_urls_as_scp_has_them_are_accepted(host, path):
    assume(not path.startswith("-"))
    url = f"git@{host}:{path}"
    assert refused(url) == ""
    assert urls.server(url)[:2] == ("ssh", host)


@given(st.one_of(ALMOST_URLS, st.text(max_size=30)))
@example("ext::sh -c id")
@example("-oProxyCommand=id@host:path")
@example("ssh://-oProxyCommand=id/path")
@example("https://example.org/a\n-b")
def test_what_is_accepted_as_a_server_has_no_second_meaning(url):
    to = urls.server(url)
    if to is None or refused(url):
        return
    assert not url.startswith("-") and not to.host.startswith("-")
    assert url.isprintable() and " " not in url
    assert "?" not in url and "#" not in url
    assert "::" not in url.partition("/")[0] or "[" in url
    assert to.scheme in ("https", "http", "git", "ssh")
    authority = url.partition("://")[2].partition("/")[0] if "://" in url else url.partition(":")[0]
    assert ":" not in authority.rpartition("@")[0]


@given(st.sampled_from(["https", "http", "ssh", "git", "ftp", "HTTPS"]), HOSTS, PATHS, SECRETS)
@example("https", "example.org", "code", "1234/567")
def test_a_password_in_a_url_is_refused_and_never_shown(scheme, host, path, secret):
    assume(secret not in host + path)
    why = refused(f"{scheme}://ada:{secret}@{host}/{path}")
    assert why and secret not in why
    why = refused(f"https://{host}/{path}?private_token={secret}")
    assert why and secret not in why


@given(HOSTS, PATHS, st.one_of(PATHS, ALMOST_URLS).map("../{}".format))
@example("example.org", "team/code", "../../../../etc")
def test_a_relative_submodule_of_a_server_is_on_a_server(host, path, relative):
    for parent in (f"https://{host}/{path}", f"git@{host}:{path}"):
        if not urls.server(parent):
            continue
        try:
            assert urls.server(urls.of_submodule(relative, parent))
        except InputError:
            continue


@pytest.mark.parametrize(
    ("parent", "relative", "result"),
    [
        ("https://example.org/team/code.git", "../lib.git", "https://example.org/team/lib.git"),
        ("https://example.org/team/code.git/", "./lib", "https://example.org/team/code.git/lib"),
        ("https://example.org/team/code", "../../other/lib", "https://example.org/other/lib"),
        ("ssh://git@example.org/code", "../lib", "ssh://git@example.org/lib"),
        ("git@example.org:team/code.git", "../lib.git", "git@example.org:team/lib.git"),
        ("git@example.org:code.git", "../lib.git", "git@example.org:lib.git"),
        ("file:///srv/code", "../lib", "file:///srv/lib"),
        ("file:///srv/code", "/srv/lib", "file:///srv/lib"),
    ],
)
def test_a_submodule_is_found_beside_its_repository(parent, relative, result):
    assert urls.of_submodule(relative, parent) == result


@given(st.text(max_size=30))
@example("main\n")
@example("--upload-pack=x")
@example("main:x")
def test_a_revision_has_no_second_meaning(revision):
    try:
        revisions.check(revision)
    except InputError:
        return
    for name in revisions.names(revision):
        assert name and not name.startswith(("-", "+"))
        assert not set(name) & set(" ~^:?*[\\\n\t\0")


@given(st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9._/-]{0,20}", fullmatch=True))
def test_names_of_branches_and_tags_are_accepted(name):
    revisions.check(name)


def test_a_branch_is_meant_before_a_tag():
    assert revisions.names("v1") == ["refs/heads/v1", "refs/tags/v1"]
    assert [revisions.branch(name) for name in revisions.names("v1")] == ["v1", ""]


def test_a_directory_becomes_a_url(tmp_path, monkeypatch):
    place = tmp_path / "my code"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    assert urls.source("my code") == place.as_uri()
    assert urls.path(place.as_uri()) == Path(place)
