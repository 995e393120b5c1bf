"""The versions of registered models: which one a person means."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from trireme.errors import InputError, TriremeError
from trireme.tracking import store
from trireme.tracking.registry import CHAMPION
from trireme.tracking.store import public, reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

_FORM = re.compile(r"([^/]+?)(?:@([^@/]+)|/([0-9]+))?")

FEW = 10  # names that an error lists


class ModelVersion(NamedTuple):
    """A version of a registered model.

    Attributes:
        note: Why it is this version, where the person should know.
    """

    name: str
    version: str
    run_id: str
    tags: dict[str, str]
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"

    @property
    def uri(self) -> str:
        """The version, as MLflow addresses it."""
        return f"models:/{self.name}/{self.version}"


def find(text: str) -> ModelVersion:
    """Returns the version that ``MODEL``, ``MODEL@ALIAS`` or ``MODEL/VERSION`` means.

    A bare ``MODEL`` is its champion, or its newest version where it has none.
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise InputError(f"model {text!r}: must be MODEL, MODEL@ALIAS or MODEL/VERSION")
    name, alias, number = form.groups(default="")
    uri = store.use()
    with said_in_a_sentence(uri):
        from mlflow import MlflowClient

        return _found(MlflowClient(), text, name, alias, number)


@contextmanager
def said_in_a_sentence(uri: str) -> Iterator[None]:
    """Says in one sentence what MLflow answers that is no good."""
    try:
        yield
    except TriremeError:
        raise
    except Exception as error:  # a database's driver has exceptions of its own
        raise TriremeError(f"MLflow at {public(uri)} cannot be read: {reason_of(error)}") from None


def _found(client: "MlflowClient", text: str, name: str, alias: str, number: str) -> ModelVersion:
    aliases = _model(client, text, name).aliases
    versions = {str(version.version): version for version in _versions(client, name)}
    if not versions:
        raise InputError(f"model {text!r}: has no versions")
    if number and number not in versions:
        raise InputError(f"model {text!r}: has no version {number}; it has {few(versions)}")
    if alias and alias not in aliases:
        raise InputError(f"model {text!r}: has no alias {alias!r}; it has {few(aliases)}")
    newest = max(versions, key=int)
    chosen = number or str(aliases.get(alias or CHAMPION, newest))
    note = ""
    if not number and not alias and CHAMPION not in aliases:
        note = f"{name} has no {CHAMPION}; this is version {newest}, its newest"
    version = versions[chosen]
    return ModelVersion(name, chosen, version.run_id or "", dict(version.tags), note)


def _model(client: "MlflowClient", text: str, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
    there_are = few(model.name for model in client.search_registered_models())
    raise InputError(
        f"model {text!r}: there is no registered model {name!r}; there are {there_are}"
    )


def _versions(client: "MlflowClient", name: str) -> Iterable[Any]:
    quote = '"' if "'" in name else "'"
    return client.search_model_versions(f"name = {quote}{name}{quote}")


def few(names: Iterable[str]) -> str:
    """Returns some names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - FEW} more" if len(listed) > FEW else ""
    return ", ".join(listed[:FEW]) + more if listed else "none"
