"""Registries of images: they are asked whether they have one, as far as they answer here.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pull
https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

HUB, HUB_API, HUB_LOGIN = "docker.io", "registry-1.docker.io", "https://index.docker.io/v1/"
LIMIT = (3.0, 5.0)  # seconds: to connect, and between two bytes of an answer
AT_ONCE = 8  # images that are asked for
ON_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+)(:\d+)?")
MANIFESTS = ", ".join(
    f"application/{kind}+json"
    for kind in (
        "vnd.oci.image.index.v1",
        "vnd.oci.image.manifest.v1",
        "vnd.docker.distribution.manifest.list.v2",
        "vnd.docker.distribution.manifest.v2",
    )
)
_ASKED = re.compile(r'(\w+)="([^"]*)"')


def missing(images: Iterable[str]) -> list[str]:
    """Returns the images of which a registry says that it has none of that name."""
    return [image for image, found in there(images).items() if found is False]


def there(images: Iterable[str]) -> dict[str, bool | None]:
    """Returns what ``is_there`` tells of each image."""
    wanted = list(dict.fromkeys(images))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(is_there, wanted), strict=True))


def is_there(image: str) -> bool | None:
    """Tells whether a registry has an image; None where it does not answer this machine."""
    host, name, reference = parts(image)
    scheme = "http" if ON_LOOPBACK.fullmatch(host) else "https"
    url = f"{scheme}://{HUB_API if host == HUB else host}/v2/{name}/manifests/{reference}"
    with suppress(requests.RequestException, ValueError), requests.Session() as session:
        answer = _head(session, url)
        if answer.status_code == 401:
            told = answer.headers.get("WWW-Authenticate", "")
            answer = _head(session, url, _authorization(session, told, _login(host)))
        return {200: True, 404: False}.get(answer.status_code)
    return None


def parts(image: str) -> tuple[str, str, str]:
    """Returns an image's registry, its name there, and its tag or digest."""
    name, _, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    if slash and (set(".:") & set(first) or first == "localhost"):
        host, name = first, rest
    else:
        host, name = HUB, name if slash else f"library/{name}"
    path, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        name = path
    else:
        tag = "latest"
    return host, name, digest or tag


def _head(session: requests.Session, url: str, authorization: str = "") -> requests.Response:
    headers = {"Accept": MANIFESTS} | ({"Authorization": authorization} if authorization else {})
    return session.head(url, headers=headers, timeout=LIMIT, allow_redirects=True)


def _authorization(session: requests.Session, told: str, login: str) -> str:
    """Returns the header for what a registry has asked for; empty for what is not known."""
    kind, _, rest = told.partition(" ")
    asked = dict(_ASKED.findall(rest))
    if kind.lower() == "basic":
        return f"Basic {login}" if login else ""
    if kind.lower() != "bearer" or not asked.get("realm", "").startswith(("https://", "http://")):
        return ""
    query = {key: asked[key] for key in ("service", "scope") if key in asked}
    headers = {"Authorization": f"Basic {login}"} if login else {}
    answer = session.get(asked["realm"], params=query, headers=headers, timeout=LIMIT)
    found = answer.json() if answer.ok else {}
    token = found.get("token") or found.get("access_token")
    return f"Bearer {token}" if token else ""


def _login(host: str) -> str:
    """Returns what 'docker login' or 'podman login' keeps for a registry; empty for nothing."""
    key = HUB_LOGIN if host == HUB else host
    for file in _files():
        content: Any = None
        with suppress(OSError, ValueError):
            content = json.loads(file.read_text())
        kept = content.get("auths") if isinstance(content, dict) else None
        entry = kept.get(key) or kept.get(host) if isinstance(kept, dict) else None
        login = entry.get("auth") if isinstance(entry, dict) else None
        with suppress(ValueError, binascii.Error):
            if isinstance(login, str) and base64.b64decode(login, validate=True):
                return login
    return ""


def _files() -> list[Path]:
    """Returns where logins are kept, the first that counts first."""
    docker = os.environ.get("DOCKER_CONFIG")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [
        *([Path(os.environ["REGISTRY_AUTH_FILE"])] if "REGISTRY_AUTH_FILE" in os.environ else []),
        *([Path(runtime) / "containers" / "auth.json"] if runtime else []),
        (Path(docker) if docker else Path.home() / ".docker") / "config.json",
    ]
