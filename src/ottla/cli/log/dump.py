"""`ottla log dump`: prints the files of partitions, and reports what is wrong with them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.log.lines import (
    FoundChecksum,
    FoundRecord,
    FoundTopicId,
    Item,
    PrintedParts,
    data_of,
    text_of,
)
from ottla.cli.terminal.output import Output, say, yaml_text
from ottla.core.producer_snapshot import CorruptSnapshotError, SnapshotEntry, read_snapshot
from ottla.inspection.stored_records import is_decodable
from ottla.ports import EpochStart
from ottla.records.control import parse_marker
from ottla.records.errors import CorruptRecordsError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.partition_listing import has_partitions
from ottla.storage.local.folder.worker_folders import existing_workers, worker_folder
from ottla.storage.local.inspection.index_checks import (
    aborted_entries,
    offset_entries,
    time_entries,
)
from ottla.storage.local.inspection.untrusted_segment import (
    Flaw,
    FoundBatch,
    SegmentFile,
    base_offset_of,
)
from ottla.storage.local.recovery.disk_trouble import SEGMENT_MISSING, SEGMENTS_OVERLAP

Found: TypeAlias = Item | Flaw

_FLAWS_TOLD: Final = 20
_INDEXES: Final = (layout.INDEX_SUFFIX, layout.TIME_INDEX_SUFFIX)
_NAMED: Final = (
    layout.LEADER_EPOCHS_FILE,
    layout.TXN_CHECKSUMS_FILE,
    layout.PARTITION_METADATA_FILE,
)
_MOVED: Final = (layout.DELETED_SUFFIX, layout.CLEANED_SUFFIX, layout.SWAP_SUFFIX)
_BY_FOLDER: Final = "by_folder"


def dump(arguments: Arguments) -> int:
    """Print files; FAILED if one of them is damaged."""
    given = [*arguments.files, *(arguments.more_files or "").split(",")]
    paths = _in_order(path for each in given if each for path in _files_of(each))
    if not paths:
        raise UsageError("no file to look into", "name files, or the folder of a partition")
    dumping = _Dump(arguments, given)
    dumping.output.lines(line for path in paths for line in dumping.lines_of(path))
    if dumping.gone_count:
        say(f"files that were deleted meanwhile: {dumping.gone_count}")
    if dumping.damaged:
        say(f"ottla: damaged files: {len(dumping.damaged)} of {dumping.file_count}")
        return FAILED
    if not dumping.gap_count:
        say(f"no damage in any of the files that were checked: {dumping.file_count}")
    return DONE


# Files


def kind_of(path: str) -> str | None:
    """The suffix of a file, or its name for files of fixed names; None for other files."""
    name = os.path.basename(path)
    if name in _NAMED:
        return name
    for suffix in _MOVED:
        name = name.removesuffix(suffix)
    suffix = os.path.splitext(name)[1]
    return suffix if suffix in (*layout.SEGMENT_SUFFIXES, layout.SNAPSHOT_SUFFIX) else None


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        if kind_of(path) is None and os.path.exists(path):
            suffixes = ", ".join([*layout.SEGMENT_SUFFIXES, layout.SNAPSHOT_SUFFIX])
            raise UsageError(
                f"{path} is not a file of a partition", f"their names end with {suffixes}"
            )
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return [path]
    names = sorted(os.listdir(path))
    files = [
        os.path.join(path, name) for name in names if kind_of(name) and not name.endswith(_MOVED)
    ]
    for name in names:
        inner = os.path.join(path, name)
        if layout.parse_folder_name(name) is not None and os.path.isdir(inner):
            files += _files_of(inner)
    for number in existing_workers(path):
        store = worker_folder(path, number)
        if has_partitions(store):
            files += _files_of(store)
    if not files and layout.parse_folder_name(os.path.basename(os.path.abspath(path))) is None:
        raise CommandError(
            f"no files of partitions are in {path}", "name the data folder, or a folder in it"
        )
    return files


def _in_order(paths: Iterable[str]) -> list[str]:
    """Each file once; those of a folder by offset, since neighbours are compared."""
    named: dict[str, str] = {}
    for path in paths:
        named.setdefault(os.path.realpath(path), path)
    folders: dict[str, list[str]] = {}
    for real in named:
        folders.setdefault(os.path.dirname(real), []).append(real)
    return [named[real] for files in folders.values() for real in sorted(files)]


# Contents


class _Segment(NamedTuple):
    """The end of a segment, to compare it with the next one."""

    base_offset: int
    end_offset: int
    is_whole: bool


class _Dump:
    """One run of the command."""

    def __init__(self, arguments: Arguments, given: Sequence[str]) -> None:
        self.output = Output(arguments.form)
        self._given = given
        self._arguments = arguments
        self.file_count = 0
        self.gone_count = 0  # a running broker may delete files meanwhile
        self.damaged: dict[str, int] = {}
        self.gap_count = 0
        self._before: dict[str, _Segment] = {}  # by folder

    def lines_of(self, path: str) -> Iterator[str]:
        """The lines of a file; problems are printed on the way."""
        wanted = self._wanted(path)
        try:
            found = self._found(path, wanted)
            is_silent = self._arguments.verify_only or (
                self._arguments.verify_index_only and kind_of(path) in _INDEXES
            )
            yield from (
                self._checked(path, found) if is_silent else self._printed(path, found, wanted)
            )
            self.file_count += 1
        except FileNotFoundError:
            if path in self._given:
                raise
            self.gone_count += 1
            self._before.pop(_folder(path), None)

    def _wanted(self, path: str) -> PrintedParts:
        arguments = self._arguments
        topic = arguments.decoder
        if topic == _BY_FOLDER:
            folder = layout.parse_folder_name(
                os.path.basename(os.path.dirname(os.path.abspath(path)))
            )
            topic = folder[0] if folder is not None and is_decodable(folder[0]) else None
        has_content = (
            arguments.records
            or arguments.headers
            or arguments.skip_record_metadata
            or arguments.decoder is not None
        )
        return PrintedParts(
            not arguments.skip_record_metadata, has_content, arguments.headers, topic
        )

    def _printed(self, path: str, found: Iterator[Found], wanted: PrintedParts) -> Iterator[str]:
        is_text = self.output.is_table
        if is_text:
            yield f"Dumping {path}"
            if kind_of(path) == layout.LOG_SUFFIX:
                yield f"Log starting offset: {base_offset_of(path)}"
        is_empty = True
        for item in found:
            is_empty = False
            if isinstance(item, Flaw):
                self._report(path, item)
                if not is_text:
                    yield from self._data_lines({"file": path, "type": "damage", **item._asdict()})
            elif is_text:
                yield text_of(item, wanted)
            else:
                yield from self._data_lines({"file": path, **data_of(item, wanted)})
        if is_empty and is_text and kind_of(path) == layout.INDEX_SUFFIX:
            yield f"{path} is empty."

    def _checked(self, path: str, found: Iterator[Found]) -> Iterator[str]:
        count = 0
        for item in found:
            if isinstance(item, Flaw):
                self._report(path, item)
            elif not isinstance(item, FoundRecord):
                count += 1
        flaw_count = self.damaged.get(path, 0)
        if self.output.is_table:
            verdict = f"damaged in {flaw_count} places" if flaw_count else "good"
            yield f"{path}: {_things(path)} {count}, {verdict}"
        else:
            yield from self._data_lines(
                {"file": path, "type": "file", _things(path): count, "flaws": flaw_count}
            )

    def _data_lines(self, data: dict[str, object]) -> list[str]:
        if self.output.form == "yaml":
            return [yaml_text([data], is_ascii=self.output.is_ascii)]
        return [json.dumps(data, ensure_ascii=self.output.is_ascii)]

    def _report(self, path: str, flaw: Flaw) -> None:
        count = self.damaged[path] = self.damaged.get(path, 0) + 1
        if count <= _FLAWS_TOLD:
            say(f"damage: {path} at {flaw.position}: {flaw.text}")
        elif count == _FLAWS_TOLD + 1:
            say(f"damage: {path} has more flaws than these")

    def _found(self, path: str, wanted: PrintedParts) -> Iterator[Found]:
        match kind_of(path):
            case layout.LOG_SUFFIX:
                return self._segment(path, wanted)
            case layout.INDEX_SUFFIX:
                return offset_entries(path)
            case layout.TIME_INDEX_SUFFIX:
                return time_entries(path)
            case layout.TXN_INDEX_SUFFIX:
                return aborted_entries(path)
            case layout.SNAPSHOT_SUFFIX:
                return _snapshot(path)
            case layout.LEADER_EPOCHS_FILE:
                return _epochs(path)
            case layout.TXN_CHECKSUMS_FILE:
                return _checksums(path)
            case _:
                return _topic_id(path)

    def _segment(
        self, path: str, wanted: PrintedParts
    ) -> Iterator[FoundBatch | FoundRecord | Flaw]:
        arguments = self._arguments
        is_deep = arguments.deep_iteration or arguments.verify_only or wanted.content
        flaw = self._overlap(path)
        if flaw is not None:
            yield flaw
        with SegmentFile(path) as segment:
            end_offset = segment.base_offset
            is_whole = arguments.max_bytes is None
            for found in segment.batches(arguments.max_bytes):
                yield found
                if isinstance(found, Flaw) or not found.is_valid:
                    is_whole = False
                    continue
                end_offset = found.last_offset + 1
                if is_deep:
                    yield from _records(segment, found)
        # Files that are being deleted or swapped in overlap with others.
        if path.endswith(layout.LOG_SUFFIX):
            before = _Segment(segment.base_offset, end_offset, is_whole)
            self._before[_folder(path)] = before

    def _overlap(self, path: str) -> Flaw | None:
        """The offsets that a segment shares with the one before it; a gap between them is reported."""
        folder, offset = _folder(path), base_offset_of(path)
        before = self._before.get(folder)
        if before is None:
            return None
        end_offset = before.end_offset
        if offset < end_offset:
            return Flaw(0, SEGMENTS_OVERLAP % {"end_offset": end_offset})
        if offset > end_offset and before.is_whole and path.endswith(layout.LOG_SUFFIX):
            between = range(before.base_offset + 1, offset)
            # A segment that was not asked for is not missing.
            if not any(base in between for base in _bases(folder)):
                names = {"path": path, "offset": offset, "end_offset": end_offset}
                say(f"gap: {SEGMENT_MISSING % names}")
                self.gap_count += 1
        return None


def _folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _bases(folder: str) -> list[int]:
    names = os.listdir(folder)
    return [base_offset_of(name) for name in names if name.endswith(layout.LOG_SUFFIX)]


def _records(segment: SegmentFile, batch: FoundBatch) -> Iterator[FoundRecord | Flaw]:
    try:
        for record in segment.records(batch):
            if batch.header is not None and batch.header.is_control:
                parse_marker(record)
            yield FoundRecord(batch, record)
    except CorruptRecordsError as error:
        yield Flaw(batch.position, str(error))


def _things(path: str) -> str:
    kind = kind_of(path)
    return {layout.LOG_SUFFIX: "batches", layout.SNAPSHOT_SUFFIX: "producers"}.get(
        kind or "", "entries"
    )


def _snapshot(path: str) -> Iterator[SnapshotEntry | Flaw]:
    offset = base_offset_of(path)
    try:
        with open(path, "rb") as file:
            entries = read_snapshot(file.read())
    except CorruptSnapshotError as error:
        yield Flaw(0, str(error))
        return
    for entry in entries:
        yield entry
        if entry.last_offset >= offset or entry.transaction_first_offset >= offset:
            yield Flaw(0, f"producer {entry.producer_id} has records at or above {offset}")


def _epochs(path: str) -> Iterator[EpochStart | Flaw]:
    with open(path, "rb") as file:
        data = file.read()
    try:
        yield from checkpoint_files.decode_epochs(data)
    except ValueError as error:
        yield Flaw(0, str(error))


def _checksums(path: str) -> Iterator[FoundChecksum | Flaw]:
    """The entries of the checkpoint, and whether the transaction indexes have these checksums (ADR 0037)."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        checksums = checkpoint_files.decode_checksums(data)
    except ValueError as error:
        yield Flaw(0, str(error))
        return
    folder = os.path.dirname(path)
    for base_offset, checksum in sorted(checksums.items()):
        yield FoundChecksum(base_offset, *checksum)
        index = os.path.join(folder, layout.offset_file_name(base_offset, layout.TXN_INDEX_SUFFIX))
        segment = os.path.join(folder, layout.offset_file_name(base_offset, layout.LOG_SUFFIX))
        content = checkpoint_files.read_small_file(index)
        if os.path.exists(segment) and not checksum.fits(content or b""):
            yield Flaw(0, f"{os.path.basename(index)} is missing, or not what was written")


def _topic_id(path: str) -> Iterator[FoundTopicId | Flaw]:
    with open(path, "rb") as file:
        topic_id = checkpoint_files.decode_topic_id(file.read())
    yield Flaw(0, "there is no topic id") if topic_id is None else FoundTopicId(topic_id)
