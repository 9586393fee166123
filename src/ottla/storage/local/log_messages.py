"""The log messages of the local store about its partitions."""

from __future__ import annotations

import uuid

from ottla.events import EventLog
from ottla.ports import PartitionRef
from ottla.storage.local.recovery.partition_folder import UntrustworthyError, UnusableIndexError

logger = EventLog(__name__)


def log_recovering(path: str) -> None:
    """A start waits for the check of all partitions."""
    text = "the last stop was unclean: checking the partitions in %(path)s"
    logger.info("recovery_begun", text, path=path)


def log_checking(path: str) -> None:
    """A start checks one partition."""
    text = "checking %(path)s after an unclean stop"
    logger.debug("partition_checked", text, path=path)


def log_recovered(partitions: int, seconds: float, offline: int) -> None:
    """A start has checked all partitions."""
    logger.info(
        "partitions_recovered",
        "%(partitions)d partition(s) checked after an unclean stop in %(seconds).3f s, "
        "%(offline)d of them offline",
        partitions=partitions,
        seconds=round(seconds, 3),
        offline=offline,
    )


def log_offline(key: tuple[str, int], path: str, error: Exception) -> None:
    """A partition cannot be repaired."""
    topic, partition = key
    text = "%(path)s is offline: %(reason)s"
    fields = {"topic": topic, "partition": partition, "path": path, "reason": str(error)}
    logger.error("partition_offline", text, **fields)


def log_untrusted(ref: PartitionRef, error: UntrustworthyError) -> None:
    """The files of a partition do not fit a clean stop; an unusable index was logged before."""
    if isinstance(error, UnusableIndexError):
        return
    logger.error(
        "partition_damaged",
        "%(reason)s although it was closed in order: checking the whole partition",
        topic=ref.topic,
        partition=ref.partition,
        reason=str(error),
    )


def log_unindexed(path: str, segments: int) -> None:
    """Indexes have to be built before a partition is used."""
    text = "%(path)s: %(segments)d segment(s) have no index, which is built anew"
    logger.warning("indexes_missing", text, path=path, segments=segments)


def log_set_aside(path: str, topic_id: uuid.UUID, name: str) -> None:
    """The folder of a partition belongs to an older topic of the same name."""
    text = "%(path)s belongs to another topic, id %(topic_id)s: set aside as %(name)s"
    logger.warning("partition_set_aside", text, path=path, topic_id=str(topic_id), name=name)


def log_flush_failed(ref: PartitionRef, error: Exception) -> None:
    """Appended records could not be synced."""
    text = "partition %(topic)s-%(partition)d: cannot write it to the disk: %(reason)s"
    topic, partition = ref.topic, ref.partition
    logger.error("flush_failed", text, topic=topic, partition=partition, reason=str(error))


def log_checkpoint_failed(path: str, error: Exception) -> None:
    """A recovery would check more than necessary."""
    text = "cannot write the checkpoints of %(path)s: %(reason)s"
    logger.error("checkpoint_failed", text, path=path, reason=str(error))


def log_not_saved(ref: PartitionRef, error: Exception) -> None:
    """The next claim of the partition takes longer, and nothing is lost."""
    logger.error(
        "partition_not_saved",
        "partition %(topic)s-%(partition)d was not saved: %(reason)s",
        topic=ref.topic,
        partition=ref.partition,
        reason=str(error),
    )


def log_closing(partitions: int) -> None:
    """A stop waits for the sync of all partitions."""
    text = "bringing %(partitions)d partition(s) to the disk"
    logger.debug("store_closing", text, partitions=partitions)


def log_disk_is_slow(left: int, partitions: int, seconds: float) -> None:
    """A stop still waits for the disk."""
    logger.info(
        "store_waits",
        "waiting for the disk since %(seconds).1f s: %(left)d of %(partitions)d partition(s) are left",
        left=left,
        partitions=partitions,
        seconds=round(seconds, 1),
    )


def log_ignored(path: str) -> None:
    """The name of a folder is not that of a partition."""
    logger.warning("folder_ignored", "%(path)s is no partition: ignored", path=path)


def log_unknown(path: str) -> None:
    """A partition's folder has no topic id."""
    text = "%(path)s does not say which topic's it is: not listed"
    logger.warning("partition_unknown", text, path=path)
