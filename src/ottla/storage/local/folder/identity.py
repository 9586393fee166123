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
    """Takes the lock of a folder for this process, which lasts as long as the descriptor is open."""
    return _lock(folder, fcntl.LOCK_EX)


def lock_for_workers(folder: str) -> int:
    """As `lock_folder`, for processes that inherit the descriptor: it lasts until the last of them has ended.

    Each of them calls `hold_inherited_lock`.
    """
    return _lock(folder, fcntl.LOCK_SH)


def _lock(folder: str, posix_kind: int) -> int:
    """Both kinds of locks, which do not see each other.

    That of `flock` belongs to the open file and passes on to children. Apache Kafka's kind belongs to a process: those
    that inherit the file share it, and Kafka asks for it alone.
    """
    path = os.path.join(folder, layout.LOCK_FILE)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, posix_kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        raise _in_use(folder) from None
    except OSError:
        os.close(fd)
        raise
    return fd


def _in_use(folder: str) -> InUseError:
    """Says which processes have a folder, where the system tells: one that hangs has to be ended by hand."""
    found = _holders(os.path.join(folder, layout.LOCK_FILE))
    processes = f": process {', '.join(map(str, found))}" if found else ""
    return InUseError(f"the data folder {folder} is in use by another broker{processes}")


def _holders(path: str) -> list[int]:
    """The processes that have a lock on a file, as Linux lists them; a lock of `flock` has the one that took it."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            locks = [line.split() for line in file]
        inode = os.stat(path).st_ino
    except OSError:
        return []
    pids = {
        int(words[4])
        for words in locks
        # number, kind, "ADVISORY", "READ" or "WRITE", process, device and inode, first byte, last byte
        if len(words) == 8 and words[5].endswith(f":{inode}") and words[4].isdecimal()
    }
    return sorted(pid for pid in pids if os.path.exists(f"/proc/{pid}"))


def hold_inherited_lock(folder: str, fd: int) -> None:
    """Holds the lock of a data folder in a process that has inherited its descriptor; InUseError if it is not that."""
    path = os.path.join(folder, layout.LOCK_FILE)
    if not os.path.samestat(os.fstat(fd), os.stat(path)):
        raise InUseError(f"descriptor {fd} is not the lock of the data folder {folder}")
    try:
        # Has no effect on an inherited lock, and is refused if it was given up.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise _in_use(folder) from None


def open_identity(folder: str, node_id: int, cluster_id: str | None) -> str:
    """Reads or makes meta.properties; returns the cluster id. With None any is accepted, or one is made."""
    path = os.path.join(folder, layout.META_PROPERTIES_FILE)
    properties = read_identity(folder)
    if properties is None:
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
    for name, wanted in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
        if wanted is not None and properties.get(name) != wanted:
            raise StorageError(
                f"the data folder {folder} belongs to {name} {properties.get(name)}, not {wanted}: "
                "use another folder, or the option that its meta.properties names"
            )
    return properties["cluster.id"]


def read_identity(folder: str) -> dict[str, str] | None:
    """What meta.properties says; None if there is none."""
    path = os.path.join(folder, layout.META_PROPERTIES_FILE)
    data = checkpoint_files.read_small_file(path)
    if data is None:
        return None
    properties = checkpoint_files.decode_properties(data)
    if properties.get("version") != _META_VERSION or not properties.get("cluster.id"):
        raise StorageError(f"{path} is damaged, or of another version than {_META_VERSION}")
    return properties


def has_clean_mark(folder: str) -> bool:
    """Whether the last stop was clean."""
    return os.path.exists(os.path.join(folder, layout.CLEAN_SHUTDOWN_FILE))


def take_clean_mark(folder: str) -> bool:
    """Whether the last stop was clean; removes the mark that says so."""
    if not has_clean_mark(folder):
        return False
    os.unlink(os.path.join(folder, layout.CLEAN_SHUTDOWN_FILE))
    # Otherwise a power loss could bring the mark back, and the next start would skip the recovery.
    checkpoint_files.sync_path(folder)
    return True


def leave_clean_mark(folder: str, epoch: int) -> None:
    """Leaves the mark of a clean stop."""
    content = json.dumps({"version": 0, "brokerEpoch": epoch}, separators=(",", ":")).encode()
    checkpoint_files.replace_file(os.path.join(folder, layout.CLEAN_SHUTDOWN_FILE), content)
    checkpoint_files.sync_path(folder)
