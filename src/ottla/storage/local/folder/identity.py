"""The lock of a data folder, its cluster and node, and the mark of a clean stop."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Final

from ottla.ports import StorageError
from ottla.ports.errors import InUseError
from ottla.storage.local.folder import checkpoint_files, layout

_META_VERSION: Final = "1"


def lock_folder(folder: str) -> int:
    """Takes the lock of a data folder, which lasts as long as the descriptor is open."""
    path = os.path.join(folder, layout.LOCK_FILE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Apache Kafka's kind of lock, which the other one does not see.
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        raise InUseError(f"the data folder {folder} is in use by another broker") from None
    except OSError:
        os.close(fd)
        raise
    return fd


def open_identity(folder: str, node_id: int, cluster_id: str | None) -> str:
    """Reads or makes meta.properties; returns the cluster id. With None any is accepted, or one is made."""
    path = os.path.join(folder, layout.META_PROPERTIES_FILE)
    data = checkpoint_files.read_small_file(path)
    if data is None:
        cluster_id = cluster_id or layout.encode_id(layout.random_id())
        properties = {
            "cluster.id": cluster_id,
            "directory.id": layout.encode_id(layout.random_id()),
            "node.id": str(node_id),
            "version": _META_VERSION,
        }
        checkpoint_files.replace_file(path, checkpoint_files.encode_properties(properties))
        checkpoint_files.sync_path(folder)
        return cluster_id
    properties = checkpoint_files.decode_properties(data)
    if properties.get("version") != _META_VERSION or not properties.get("cluster.id"):
        raise StorageError(f"{path} is damaged, or of another version than {_META_VERSION}")
    for name, wanted in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
        if wanted is not None and properties.get(name) != wanted:
            raise StorageError(
                f"the data folder {folder} belongs to {name} {properties.get(name)}, not {wanted}: "
                "use another folder, or the option that its meta.properties names"
            )
    return properties["cluster.id"]


def take_clean_mark(folder: str) -> bool:
    """Whether the last stop was clean; removes the mark that says so."""
    mark = os.path.join(folder, layout.CLEAN_SHUTDOWN_FILE)
    if not os.path.exists(mark):
        return False
    os.unlink(mark)
    # Otherwise a power loss could bring the mark back, and the next start would skip the recovery.
    checkpoint_files.sync_path(folder)
    return True


def leave_clean_mark(folder: str, epoch: int) -> None:
    """Leaves the mark of a clean stop."""
    content = json.dumps({"version": 0, "brokerEpoch": epoch}, separators=(",", ":")).encode()
    checkpoint_files.replace_file(os.path.join(folder, layout.CLEAN_SHUTDOWN_FILE), content)
    checkpoint_files.sync_path(folder)
