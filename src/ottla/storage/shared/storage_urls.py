"""The URLs of a shared storage, as users give them: on the command line, in a file, or in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.errors import ConfigError

STORAGE_VARIABLE: Final = "OTTLA_STORAGE"
OBJECTS_VARIABLE: Final = "OTTLA_OBJECTS"
_FILE_SIGN: Final = "@"


@dataclass(frozen=True)
class StorageUrls:
    """`storage` is a database of PostgreSQL, `objects` a bucket; without it, PostgreSQL has everything.

    URLs may have passwords, so the text of this object has none of them.
    """

    storage: str = field(repr=False)
    objects: str | None = field(default=None, repr=False)


def read_urls(
    storage: str | None, objects: str | None, environment: Mapping[str, str] = os.environ
) -> StorageUrls | None:
    """The URLs that were given, else those of the environment; None if there is no storage.

    @FILE stands for the first line of a file.
    """
    storage = storage or environment.get(STORAGE_VARIABLE)
    if not storage:
        if objects:
            raise ConfigError("--objects has no effect without --storage postgresql://…")
        return None
    objects = objects or environment.get(OBJECTS_VARIABLE)
    return StorageUrls(
        _text_of("--storage", storage), None if not objects else _text_of("--objects", objects)
    )


def variables_of_shown_secrets(storage: str | None, objects: str | None) -> dict[str, str]:
    """The flags whose URL has a secret on the command line, with the variable that can have the URL instead."""
    from ottla.storage.shared.objects.s3_options import parse_s3_url
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

    found = {}
    if storage and not storage.startswith(_FILE_SIGN) and parse_database_url(storage).has_password:
        found["--storage"] = STORAGE_VARIABLE
    if objects and not objects.startswith(_FILE_SIGN) and parse_s3_url(objects).has_secrets:
        found["--objects"] = OBJECTS_VARIABLE
    return found


def _text_of(name: str, given: str) -> str:
    if not given.startswith(_FILE_SIGN):
        return given
    path = given.removeprefix(_FILE_SIGN)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{name} @{path} cannot be read: {reason}") from error
    line = text.partition("\n")[0].strip()
    if not line:
        raise ConfigError(f"{name} @{path}: the file begins with no URL")
    return line
