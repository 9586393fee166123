"""The version of the formats in a data folder: one number for all of its files, in a file of its own (ADR 0035).

Folders without that file have version 1. Whatever changes the bytes of a file gets the next number; each number has
data folders in `tests/storage/data_folders`, which every later version has to open.
"""

from __future__ import annotations

import os
from typing import Final

from ottla.ports import StorageError
from ottla.ports.errors import NewerFormatError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.version import VERSION

VERSIONS: Final = {
    1: "Kafka's formats and the catalog's journal; what Apache Kafka writes counts as this version too",
    2: "committed offsets carry their topic's id (OffsetCommitValue 4, ADR 0027); the folder states its version",
    3: "checksums of transaction indexes, in a file in each partition (ADR 0037); the cluster id beside the version",
    4: "groups of the consumer protocol (ADR 0047); the catalog has configs of groups and client metrics, ACLs, "
    "SCRAM credentials and quotas",
    5: "a data folder may have stores of workers, which earlier versions would not find (ADR 0061)",
}
UNSTATED_VERSION: Final = 1
NEWEST_VERSION: Final = max(VERSIONS)

_NUMBER: Final = "version"
_RAISED_BY: Final = "ottla.version"  # the Ottla that wrote the number, for the message
_CLUSTER_ID: Final = "cluster.id"  # as in meta.properties, where a flipped bit would make another cluster of this one


def read_version(folder: str) -> int:
    """The version of a data folder, which is not changed; NewerFormatError if it is not known here."""
    path = os.path.join(folder, layout.FORMAT_VERSION_FILE)
    properties = _read_properties(path)
    if properties is None:
        return UNSTATED_VERSION
    text = properties.get(_NUMBER, "")
    # No number is longer, and int() takes digits of other scripts and refuses very long numbers.
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if number < 1:
        raise StorageError(
            f"{path} is damaged: it states no version; restore it from a copy, or remove it if no Ottla newer "
            f"than {VERSION} has written to the folder"
        )
    if number > NEWEST_VERSION:
        raised_by = properties.get(_RAISED_BY)
        newer = f"Ottla {raised_by} or later" if raised_by else "a newer Ottla"
        raise NewerFormatError(
            f"the data folder {folder} has format version {number}, and Ottla {VERSION} reads versions up to "
            f"{NEWEST_VERSION}: use {newer}, or another folder"
        )
    return number


def _read_properties(path: str) -> dict[str, str] | None:
    try:
        data = checkpoint_files.read_small_file(path)
    except NotADirectoryError:
        return None  # the caller finds out when it opens the folder
    return None if data is None else checkpoint_files.decode_properties(data)


def raise_version(folder: str, cluster_id: str) -> None:
    """Durably states the newest version, before anything is written in its formats.

    StorageError if the folder states another cluster id than its meta.properties.
    """
    path = os.path.join(folder, layout.FORMAT_VERSION_FILE)
    if read_version(folder) == NEWEST_VERSION:
        stated = (_read_properties(path) or {}).get(_CLUSTER_ID, cluster_id)
        if stated != cluster_id:
            raise StorageError(
                f"{os.path.join(folder, layout.META_PROPERTIES_FILE)} says cluster.id={cluster_id!r}, and "
                f"{layout.FORMAT_VERSION_FILE} beside it {stated!r}: one of them is damaged; correct that line"
            )
        return
    properties = {_NUMBER: str(NEWEST_VERSION), _RAISED_BY: VERSION, _CLUSTER_ID: cluster_id}
    checkpoint_files.replace_file(path, checkpoint_files.encode_properties(properties))
    checkpoint_files.sync_path(folder)
