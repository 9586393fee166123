"""Moving partitions between the stores of a data folder, while no process has any of them open.

The place of a partition's folder says where the partition is, and `os.rename` moves it in one step. What else a store
keeps about it moves around that step: the target's checkpoints have its offsets before, and the source's lose them when
the new place is durable. So a crash at any point leaves every partition in one place with its offsets there; entries of
a partition that is not in a store mean nothing, and the next start goes on, with the same plan or another one.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ottla.events import EventLog
from ottla.ports import StorageError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.identity import has_clean_mark, leave_clean_mark, take_clean_mark
from ottla.storage.local.folder.offsets_file import Key
from ottla.storage.local.folder.partition_listing import (
    folder_names,
    has_partitions,
    is_retired,
    partition_key,
)

logger = EventLog(__name__)

OFFSETS_FILES: Final = (
    layout.RECOVERY_POINTS_FILE,
    layout.LOG_STARTS_FILE,
    layout.CLEANED_OFFSETS_FILE,
)
_PROBE: Final = f"move-probe{layout.TEMPORARY_SUFFIX}"

# The number of a store: 0 is the data folder itself, others are those of workers.
StoreNumber = int


class Move(NamedTuple):
    """A partition, or a retired folder, and the stores that it leaves and goes to."""

    name: str  # of its folder
    key: Key | None
    source: StoreNumber
    target: StoreNumber


class MovePlan(NamedTuple):
    """What has to be done so that each partition is where it belongs."""

    moves: Sequence[Move]
    # Folders of partitions that are in another place too, and have no records here.
    set_aside: Sequence[Move]

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.set_aside)


def plan_moves(
    stores: Mapping[StoreNumber, str],
    targets: Iterable[StoreNumber],
    owner_of: Callable[[str, int], StoreNumber],
) -> MovePlan:
    """Looks at the names in all stores; StorageError if a partition is in two places and has records in both."""
    remaining = sorted(targets)
    places: dict[Key, list[StoreNumber]] = defaultdict(list)
    moves = []
    for number, path in stores.items():
        for name in folder_names(path):
            key = partition_key(name)
            if key is not None:
                places[key].append(number)
            elif is_retired(name) and number not in remaining:
                moves.append(Move(name, None, number, remaining[0]))
    set_aside = []
    for key, found in places.items():
        name, target = layout.folder_name(*key), owner_of(*key)
        kept = found[0] if len(found) == 1 else _place_that_counts(key, found, stores, target)
        set_aside += [Move(name, key, number, number) for number in found if number != kept]
        if kept != target:
            moves.append(Move(name, key, kept, target))
    return MovePlan(moves, set_aside)


def _place_that_counts(
    key: Key, found: Sequence[StoreNumber], stores: Mapping[StoreNumber, str], target: StoreNumber
) -> StoreNumber:
    """The store whose folder of a partition is the partition; only copying by hand leaves several."""
    paths = {number: os.path.join(stores[number], layout.folder_name(*key)) for number in found}
    filled = [number for number in found if _has_records(paths[number])]
    if len(filled) > 1:
        raise StorageError(
            f"a partition is in two places, with records in both: {' and '.join(paths[each] for each in filled)}; "
            "move all but one of them out of the data folder"
        )

    def rank(number: StoreNumber) -> tuple[bool, int, bool]:
        starts = checkpoint_files.read_offsets(os.path.join(stores[number], layout.LOG_STARTS_FILE))
        return number in filled, starts.get(key, 0), number == target

    return max(found, key=rank)


def _has_records(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(
            entry.name.endswith(layout.LOG_SUFFIX) and entry.stat().st_size for entry in entries
        )


def check_moves(plan: MovePlan, stores: Mapping[StoreNumber, str]) -> None:
    """StorageError if a folder cannot be renamed into its target, as on another disk; nothing is changed."""
    for source, target in {(move.source, move.target): None for move in plan.moves}:
        probe, moved = (os.path.join(stores[each], _PROBE) for each in (source, target))
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            os.rename(probe, moved)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise StorageError(
                f"partitions have to be moved from {stores[source]} to {stores[target]}, which are on different "
                "file systems: start with as many workers as before, or bring both onto one file system"
            ) from error
        finally:
            for path in (probe, moved):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def make_moves(plan: MovePlan, stores: Mapping[StoreNumber, str], epoch: int) -> None:
    """Carries out a plan; it may follow a crash at any point of an earlier try.

    The counters of the targets are at `epoch` or above already: clients accept no lower epoch of a partition.
    """
    targets = [stores[number] for number in _numbers(move.target for move in plan.moves)]
    left = [stores[number] for number in _numbers(m.source for m in (*plan.moves, *plan.set_aside))]
    _mark_targets(plan, stores, epoch)
    _add_offsets(plan, stores)
    for move in plan.set_aside:
        assert move.key is not None
        stray = layout.retired_folder_name(*move.key, layout.STRAY_FOLDER_SUFFIX)
        path = stores[move.source]
        logger.warning(
            "partition_set_aside_twice",
            "%(path)s has no records, and the partition is in another place too: set aside as %(name)s",
            path=os.path.join(path, move.name),
            name=stray,
        )
        os.rename(os.path.join(path, move.name), os.path.join(path, stray))
    for move in plan.moves:
        path = os.path.join(stores[move.source], move.name)
        os.rename(path, os.path.join(stores[move.target], move.name))
    # The new names first: a power loss between the two must not leave a partition without any.
    for path in dict.fromkeys((*targets, *left)):
        checkpoint_files.sync_path(path)
    for path in left:
        drop_offsets(path)


def _numbers(found: Iterable[StoreNumber]) -> list[StoreNumber]:
    return sorted(set(found))


def _mark_targets(plan: MovePlan, stores: Mapping[StoreNumber, str], epoch: int) -> None:
    """Takes the mark of a clean stop from each target that gets partitions which have to be checked."""
    sources = defaultdict(set)
    for move in plan.moves:
        if move.key is not None:
            sources[stores[move.target]].add(stores[move.source])
    for target, paths in sources.items():
        if not all(map(has_clean_mark, paths)):
            take_clean_mark(target)
        elif not has_clean_mark(target) and not has_partitions(target):
            leave_clean_mark(target, epoch)


def _add_offsets(plan: MovePlan, stores: Mapping[StoreNumber, str]) -> None:
    """Gives the targets the offsets of the partitions that they will have: those of their sources, and no others."""
    for name in OFFSETS_FILES:
        files = {number: os.path.join(path, name) for number, path in stores.items()}
        offsets = {number: checkpoint_files.read_offsets(path) for number, path in files.items()}
        for target in _numbers(move.target for move in plan.moves):
            wanted = dict(offsets[target])
            for move in plan.moves:
                if move.target == target and move.key is not None:
                    wanted.pop(move.key, None)
                    if move.key in offsets[move.source]:
                        wanted[move.key] = offsets[move.source][move.key]
            if wanted != offsets[target]:
                checkpoint_files.write_offsets(files[target], wanted)


def drop_offsets(store: str) -> None:
    """Removes the offsets of partitions that are not in a store."""
    keys = {layout.parse_folder_name(name) for name in folder_names(store)}
    for name in OFFSETS_FILES:
        path = os.path.join(store, name)
        offsets = checkpoint_files.read_offsets(path)
        left = {key: offset for key, offset in offsets.items() if key in keys}
        if left != offsets:
            checkpoint_files.write_offsets(path, left)


def remove_store_files(store: str) -> None:
    """Removes what a store without partitions keeps about partitions; offsets of Kafka's catalog stay."""
    names = [layout.CLEAN_SHUTDOWN_FILE]
    names += [
        name
        for name in OFFSETS_FILES
        if not checkpoint_files.read_offsets(os.path.join(store, name))
    ]
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(store, name))
