"""What the log of the broker says of partitions on disk."""

from __future__ import annotations

import uuid

from ottla.events import EventLog
from ottla.ports import PartitionRef
from ottla.storage.local.recovery.folder_recovery import UntrustworthyError, UnusableIndexError

logger = EventLog(__name__)


def tell_recovering(path: str) -> None:
    """A start will take as long as that does."""
    text = "the last stop was unclean: checking the partitions in %(path)s"
    logger.info("recovery_begun", text, path=path)


def tell_checking(path: str) -> None:
    """A partition is looked at after an unclean stop."""
    text = "checking %(path)s after an unclean stop"
    logger.debug("partition_checked", text, path=path)


def tell_recovered(partitions: int, seconds: float, offline: int) -> None:
    """All of them have been looked at."""
    logger.info(
        "partitions_recovered",
        "%(partitions)d partition(s) checked after an unclean stop in %(seconds).3f s, "
        "%(offline)d of them offline",
        partitions=partitions,
        seconds=round(seconds, 3),
        offline=offline,
    )


def tell_offline(key: tuple[str, int], path: str, error: Exception) -> None:
    """A partition cannot be repaired."""
    topic, partition = key
    text = "%(path)s is offline: %(reason)s"
    fields = {"topic": topic, "partition": partition, "path": path, "reason": str(error)}
    logger.error("partition_offline", text, **fields)


def tell_untrusted(ref: PartitionRef, error: UntrustworthyError) -> None:
    """A partition is not what a clean stop leaves; an index that is of no use was told of before."""
    if isinstance(error, UnusableIndexError):
        return
    logger.error(
        "partition_damaged",
        "%(reason)s although it was closed in order: checking the whole partition",
        topic=ref.topic,
        partition=ref.partition,
        reason=str(error),
    )


def tell_unindexed(path: str, segments: int) -> None:
    """Segments have to be read before a partition is used."""
    text = "%(path)s: %(segments)d segment(s) have no index, which is built anew"
    logger.warning("indexes_missing", text, path=path, segments=segments)


def tell_set_aside(path: str, topic_id: uuid.UUID, name: str) -> None:
    """A folder has the name of a partition and belongs to another one."""
    text = "%(path)s belongs to another topic, id %(topic_id)s: set aside as %(name)s"
    logger.warning("partition_set_aside", text, path=path, topic_id=str(topic_id), name=name)


def tell_flush_failed(ref: PartitionRef, error: Exception) -> None:
    """What was appended is not on the disk."""
    text = "partition %(topic)s-%(partition)d: cannot write it to the disk: %(reason)s"
    topic, partition = ref.topic, ref.partition
    logger.error("flush_failed", text, topic=topic, partition=partition, reason=str(error))


def tell_checkpoint_failed(path: str, error: Exception) -> None:
    """A recovery would have to look at more than necessary."""
    text = "cannot write the checkpoints of %(path)s: %(reason)s"
    logger.error("checkpoint_failed", text, path=path, reason=str(error))


def tell_not_saved(ref: PartitionRef, error: Exception) -> None:
    """The next claim of the partition takes longer, and nothing is lost."""
    logger.error(
        "partition_not_saved",
        "partition %(topic)s-%(partition)d was not saved: %(reason)s",
        topic=ref.topic,
        partition=ref.partition,
        reason=str(error),
    )


def tell_closing(partitions: int) -> None:
    """A stop takes as long as that does."""
    text = "bringing %(partitions)d partition(s) to the disk"
    logger.debug("store_closing", text, partitions=partitions)


def tell_disk_is_slow(left: int, partitions: int, seconds: float) -> None:
    """What a stop waits for."""
    logger.info(
        "store_waits",
        "waiting for the disk since %(seconds).1f s: %(left)d of %(partitions)d partition(s) are left",
        left=left,
        partitions=partitions,
        seconds=round(seconds, 1),
    )


def tell_ignored(path: str) -> None:
    """A folder is none of a partition."""
    logger.warning("folder_ignored", "%(path)s is no partition: ignored", path=path)


def tell_unknown(path: str) -> None:
    """A folder says nothing of its topic."""
    text = "%(path)s does not say which topic's it is: not listed"
    logger.warning("partition_unknown", text, path=path)
