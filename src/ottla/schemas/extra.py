"""Optional packages, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.errors import ConfigError


def require(module: str, what: str) -> Any:
    """A module of the extra `schemas`; ConfigError says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = "protobuf" if module.startswith("google.") else module.partition(".")[0]
        raise ConfigError(
            f"{what} needs the package {package}: pip install 'ottla[schemas]'"
        ) from error
