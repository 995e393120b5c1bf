"""References to variables, ``$(NAME)``, as Kubernetes takes them."""

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces ``$(NAME)`` and ``$$`` as Kubernetes does; an unknown name stays as it is."""
    # https://github.com/kubernetes/kubernetes/blob/v1.31.0/third_party/forked/golang/expansion/expand.go

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def names_in(text: str) -> set[str]:
    """Returns the names of the variables that a text refers to."""
    return {match[1] for match in _REFERENCE.finditer(text) if match[1] is not None}


def inlined(text: str, texts: Mapping[str, str]) -> str:
    """Replaces ``$(NAME)`` by texts that are to be expanded with it; all else stays as it is."""
    return _REFERENCE.sub(lambda match: texts.get(match[1], match[0]), text)
