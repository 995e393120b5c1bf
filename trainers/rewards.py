"""A reward function of somebody's own; to be copied along with programs.

It is called with lists by name: ``prompts``, ``completions``, and what else the texts have; of
conversations a completion is a list of messages. It returns a number for each completion, the
greater the better.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from texts import Unusable

WHY = 300  # letters of what is wrong with it


def load(option: str) -> Callable[..., list[float]]:
    """Returns the function that FILE.py:FUNCTION names, which raises nothing but Unusable."""
    file, _, name = option.partition(":")
    path, name = Path(file), name or "reward"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or not spec or not spec.loader:
        raise Unusable(f"--reward {option}: there is no Python file {file}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Unusable(f"--reward {option}: {file} raised {_in_words(error)}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise Unusable(f"--reward {option}: {file} has no function {name}")

    def reward(completions: list[Any], **columns: Any) -> list[float]:
        try:
            returned = function(completions=completions, **columns)
        except Exception as error:
            raise Unusable(f"--reward {option} raised {_in_words(error)}") from error
        try:
            numbers = [float(number) for number in returned]
        except (TypeError, ValueError):
            numbers = []
        if len(numbers) != len(completions):
            raise Unusable(
                f"--reward {option}: has to return {len(completions)} numbers, one for each "
                f"completion, not {str(returned)[:WHY]}"
            )
        return numbers

    reward.__name__ = name
    return reward


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:WHY]}"
