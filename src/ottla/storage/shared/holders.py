"""Who holds which partition at which epoch, as far as this process knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.ports import PartitionRef
from ottla.storage.shared.sequencer.records import Holder
from ottla.storage.shared.sequencer.sequencer import Sequencer


class Holders:
    """A copy of the sequencer's table; it is caught up with when a heartbeat or a notification says so."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._by_ref: dict[PartitionRef, Holder] = {}
        self._by_name: dict[tuple[str, int], dict[PartitionRef, None]] = {}
        self._revision = 0
        self.followers: list[Callable[[Sequence[Holder], Sequence[PartitionRef]], None]] = []

    @property
    def revision(self) -> int:
        return self._revision

    def __iter__(self) -> Iterator[Holder]:
        return iter(self._by_ref.values())

    def find(self, ref: PartitionRef) -> Holder | None:
        return self._by_ref.get(ref)

    def namesakes(self, ref: PartitionRef) -> list[PartitionRef]:
        """Partitions of deleted topics that had the name of this one."""
        return [each for each in self._by_name.get((ref.topic, ref.partition), ()) if each != ref]

    async def catch_up(self) -> None:
        """Asks for what has changed, and tells the followers."""
        found = await self._sequencer.holders(self._revision)
        if found.revision <= self._revision and not found.changed and not found.deleted:
            return
        self._revision = max(self._revision, found.revision)
        deleted = list(found.deleted)
        if found.is_complete:
            known = {holder.ref for holder in found.changed}
            deleted += [ref for ref in self._by_ref if ref not in known]
        for ref in deleted:
            self._forget(ref)
        for holder in found.changed:
            self._put(holder)
        for follower in list(self.followers):
            follower(found.changed, deleted)

    def changed_here(self, changed: Sequence[Holder]) -> None:
        """This process has claimed or released partitions."""
        for holder in changed:
            self._put(holder)
        for follower in list(self.followers):
            follower(changed, ())

    def forget(self, refs: Sequence[PartitionRef]) -> None:
        """This process deletes partitions."""
        for ref in refs:
            self._forget(ref)

    def tell_deleted(self, refs: Sequence[PartitionRef]) -> None:
        """Tells the followers of partitions that were deleted."""
        for follower in list(self.followers):
            follower((), refs)

    def _put(self, holder: Holder) -> None:
        known = self._by_ref.get(holder.ref)
        # An answer may have been overtaken by a claim of this process.
        if known is None or known.epoch <= holder.epoch:
            self._by_ref[holder.ref] = holder
            self._by_name.setdefault((holder.ref.topic, holder.ref.partition), {})[holder.ref] = (
                None
            )

    def _forget(self, ref: PartitionRef) -> None:
        if self._by_ref.pop(ref, None) is not None:
            key = (ref.topic, ref.partition)
            self._by_name[key].pop(ref, None)
            if not self._by_name[key]:
                del self._by_name[key]
