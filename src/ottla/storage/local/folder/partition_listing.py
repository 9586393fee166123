"""The partitions in the folder of a store, by the names of their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ottla.ports import PartitionRef
from ottla.storage.local import log_messages
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.offsets_file import Key

_RETIRED = (layout.DELETED_FOLDER_SUFFIX, layout.STRAY_FOLDER_SUFFIX)


def folder_names(store: str) -> list[str]:
    """The names of all folders in the folder of a store."""
    with os.scandir(store) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def partition_key(name: str) -> Key | None:
    """The partition that a folder with this name belongs to; Kafka's catalog is none."""
    key = layout.parse_folder_name(name)
    return None if key is None or key[0] == layout.KAFKA_CATALOG_TOPIC else key


def is_retired(name: str) -> bool:
    """Whether a folder with this name was deleted or set aside."""
    return name.endswith(_RETIRED)


def has_partitions(store: str) -> bool:
    """Whether any partition is in the folder of a store."""
    return any(partition_key(name) is not None for name in folder_names(store))


def partition_folders(store: str) -> Iterator[tuple[Key, str]]:
    """The partitions in the folder of a store, and their folders; logs folders that are nothing of ours."""
    for name in folder_names(store):
        key, path = partition_key(name), os.path.join(store, name)
        if key is not None:
            yield key, path
        elif (
            layout.parse_folder_name(name) is None
            and not is_retired(name)
            and name != layout.WORKERS_FOLDER
        ):
            log_messages.log_ignored(path)


def partition_refs(store: str) -> list[PartitionRef]:
    """The partitions whose folders say which topic's they are."""
    found = []
    for (topic, partition), path in partition_folders(store):
        topic_id = checkpoint_files.read_topic_id(path)
        if topic_id is None:
            log_messages.log_unknown(path)
        else:
            found.append(PartitionRef(topic, partition, topic_id))
    return found


def highest_leader_epoch(store: str) -> int:
    """The highest leader epoch in the files of partitions, else 0."""
    highest = 0
    for _, path in partition_folders(store):
        epochs = checkpoint_files.read_epochs(os.path.join(path, layout.LEADER_EPOCHS_FILE))
        highest = max(highest, epochs[-1].epoch if epochs else 0)
    return highest
