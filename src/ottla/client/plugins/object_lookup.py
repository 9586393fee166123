"""From an option that is a name, a class or an object to the object."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

from ottla.config.options import code_name
from ottla.errors import ConfigError

BuiltIn = Mapping[str, Any]
"""Short names and Kafka's Java names, with the class or object that they stand for."""


def look_up(option: str, named: object, built_in: BuiltIn) -> Any:
    """The object that `named` stands for; if that is a class, a new object of it."""
    found = find(option, named, built_in)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{option}: an object of the class {code_name(found)} could not be made ({error!r}): "
            "let it work without arguments, or give an object"
        ) from error


def find(option: str, named: object, built_in: BuiltIn) -> Any:
    """The object that `named` names; anything but a name is returned as it is."""
    if not isinstance(named, str):
        return named
    for known, meant in built_in.items():
        if named == known or ("." not in known and named.lower() == known):
            return meant
    module_name, separator, path = named.partition(":")
    if not separator:
        module_name, separator, path = named.rpartition(".")
    if not separator:
        raise _unknown(option, named, built_in)
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise _unknown(option, named, built_in, error) from error
    return found


def require(option: str, found: object, method: str) -> None:
    """Raise ConfigError if the object lacks a method."""
    if not callable(getattr(found, method, None)):
        raise ConfigError(
            f"{option}: {code_name(found)} has no method {method}: give an object or a class that has"
        )


def short_names(built_in: BuiltIn) -> str:
    """The names to offer in a message, without Java's."""
    return ", ".join(name for name in built_in if "." not in name)


def _unknown(
    option: str, name: str, built_in: BuiltIn, error: Exception | None = None
) -> ConfigError:
    nearest = difflib.get_close_matches(name, built_in, n=1, cutoff=0.7)
    advice = f"did you mean {nearest[0]}? " if nearest else ""
    reason = "" if error is None else f" ({error})"
    return ConfigError(
        f"{option}={name!r} names nothing that can be found{reason}: {advice}"
        f"It takes {short_names(built_in)}, a dotted path (package.module.name), a class or an object"
    )
