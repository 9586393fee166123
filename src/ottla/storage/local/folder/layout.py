"""The names of files and folders, and the fields of a batch that the engine reads; all as in Kafka."""

from __future__ import annotations

import re
import struct
import uuid
from typing import Final

from ottla.model import parse_topic_id, topic_id_text
from ottla.records.batch import HEADER_BYTES, MAGIC, OVERHEAD_BYTES

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX: Final = ".deleted"
# A segment that will replace others: while it is written, and while it is put in their place.
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
CUT_MARK: Final = ".cut-"  # and a number: the bytes that a recovery has cut off
DELETED_FOLDER_SUFFIX: Final = "-delete"
STRAY_FOLDER_SUFFIX: Final = "-stray"
KAFKA_CATALOG_TOPIC: Final = "__cluster_metadata"  # its folder is none of ours

LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
TXN_CHECKSUMS_FILE: Final = "transaction-index-checkpoint"  # ours; Kafka has no such file
RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"
META_PROPERTIES_FILE: Final = "meta.properties"
FORMAT_VERSION_FILE: Final = "format.properties"  # ours; Kafka has no such file
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"
JOURNAL_FILE: Final = "catalog.journal"
# A data folder of several workers has a store for each of them, `workers/1` and so on.
WORKERS_FOLDER: Final = "workers"
WORKERS_FILE: Final = "workers.properties"  # which stores there are
CLAIM_EPOCH_FILE: Final = "claim-epoch-checkpoint"  # in a worker's store, which has no journal

# The range of index entries: offsets relative to the segment's base and positions are int32.
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
MAX_SEGMENT_BYTES: Final = 2**31 - 1

# A batch's size is its length field plus the two fields before it (base offset, length).
BATCH_PREFIX_BYTES: Final = OVERHEAD_BYTES
BATCH_HEADER_BYTES: Final = HEADER_BYTES
MIN_BATCH_LENGTH: Final = HEADER_BYTES - OVERHEAD_BYTES
BATCH_MAGIC: Final = MAGIC
CRC_START: Final = 21

# base_offset, batch_length, last_offset_delta
BATCH_PEEK: Final = struct.Struct(">qi11xi")
# base_offset, batch_length, last_offset_delta, max_timestamp
BATCH_TIMES: Final = struct.Struct(">qi11xi8xq")
# base_offset, batch_length, partition_leader_epoch, magic, crc, last_offset_delta, max_timestamp
BATCH_SCAN: Final = struct.Struct(">qiibI2xi8xq")

_FOLDER_NAME: Final = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})"
)
_OFFSET_NAME: Final = re.compile(r"([0-9]{20})(\.[a-z]+)")
_MAX_NAME_BYTES: Final = 255


def offset_file_name(offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset."""
    return f"{offset:020d}{suffix}"


def parse_offset_file_name(name: str) -> tuple[int, str] | None:
    """The offset and the suffix in a file's name; None for any other name."""
    found = _OFFSET_NAME.fullmatch(name)
    if found is None:
        return None
    offset = int(found[1])
    return (offset, found[2]) if offset < 2**63 else None


def folder_name(topic: str, partition: int) -> str:
    """The folder of a partition."""
    return f"{topic}-{partition}"


def parse_folder_name(name: str) -> tuple[str, int] | None:
    """The topic and the partition in a folder's name; None for any other name."""
    found = _FOLDER_NAME.fullmatch(name)
    if found is None:
        return None
    partition = int(found["partition"])
    return (found["topic"], partition) if partition < 2**31 else None


def retired_folder_name(topic: str, partition: int, suffix: str) -> str:
    """A fresh name for a folder that is out of use; a long topic name is cut, as in Kafka."""
    ending = f"-{partition}.{uuid.uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_BYTES - len(ending)] + ending


def encode_id(value: uuid.UUID) -> str:
    """A UUID as Kafka writes it: URL-safe base64 without padding."""
    return topic_id_text(value)


def decode_id(text: str) -> uuid.UUID | None:
    """The UUID in Kafka's text form, None if the text is none."""
    try:
        return parse_topic_id(text)
    except ValueError:
        return None


def random_id() -> uuid.UUID:
    """A fresh UUID whose text does not begin with a dash, as options do on command lines."""
    while True:
        value = uuid.uuid4()
        if not encode_id(value).startswith("-"):
            return value
