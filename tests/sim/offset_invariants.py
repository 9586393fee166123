"""What must hold of committed offsets whatever happens: what was acknowledged is read, until something newer is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.sim.network import Exchange
from tests.sim.world import World

from ottla.errors import ErrorCode

NO_OFFSET = -1
# Errors after which a commit may have been written all the same; after all others it must not have been.
UNKNOWN_OUTCOME = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)

Key = tuple[str, int]


@dataclass(eq=False)
class Commit:
    """An offset that somebody wanted to commit, from when it reached the node until it was answered."""

    offset: int
    arrived_at: float
    over_at: float = float("inf")
    is_acknowledged: bool = False


class OffsetChecks:
    """Watches a network: commits are writes to registers, fetches are reads.

    A topic that is deleted takes its offsets with it; its name must not be used again.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged_commits = 0
        self.rejected_commits = 0
        self._commits: dict[str, dict[Key, list[Commit]]] = {}  # by group
        self._open: dict[int, list[tuple[Key, Commit]]] = {}
        world.network.on_arrival.append(self._arrived)
        world.network.on_answer.append(self._answered)
        self._on_arrival: dict[str, Callable[[Exchange], None]] = {
            "OffsetCommit": self._commit_arrives,
            "OffsetDelete": self._delete_arrives,
            "DeleteGroups": self._delete_all_arrives,
        }
        self._on_answer: dict[str, Callable[[Exchange], None]] = {
            "OffsetCommit": self._committed,
            "OffsetDelete": self._deleted,
            "DeleteGroups": self._all_deleted,
            "OffsetFetch": self._fetched,
        }

    def _arrived(self, exchange: Exchange) -> None:
        look = self._on_arrival.get(exchange.name)
        if look is not None:
            look(exchange)

    def _answered(self, exchange: Exchange) -> None:
        look = self._on_answer.get(exchange.name)
        if look is not None:
            look(exchange)

    def _of_group(self, exchange: Exchange) -> dict[Key, list[Commit]]:
        return self._commits.setdefault(str(group_id_of(exchange.request)), {})

    def _begin(self, exchange: Exchange, key: Key, offset: int) -> None:
        commit = Commit(offset, self.world.loop.time())
        self._of_group(exchange).setdefault(key, []).append(commit)
        self._open.setdefault(exchange.number, []).append((key, commit))

    # Commits.

    def _commit_arrives(self, exchange: Exchange) -> None:
        for key, offset in committed_offsets(exchange.request):
            self._begin(exchange, key, offset)

    def _committed(self, exchange: Exchange) -> None:
        now = self.world.loop.time()
        commits = self._open.pop(exchange.number, [])
        errors = commit_errors(exchange.response)
        for (key, commit), error in zip(commits, errors, strict=True):
            commit.over_at = now
            if error is ErrorCode.NONE:
                commit.is_acknowledged = True
                self.acknowledged_commits += 1
            elif error not in UNKNOWN_OUTCOME:
                self._of_group(exchange)[key].remove(commit)
                self.rejected_commits += 1

    # Deletions: commits of no offset.

    def _delete_arrives(self, exchange: Exchange) -> None:
        for topic in exchange.request.topics:
            for partition in topic.partitions:
                self._begin(exchange, (topic.name, partition.partition_index), NO_OFFSET)

    def _delete_all_arrives(self, exchange: Exchange) -> None:
        for key in list(self._of_group(exchange)):
            self._begin(exchange, key, NO_OFFSET)

    def _deleted(self, exchange: Exchange) -> None:
        answer = exchange.response
        errors = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        if answer.error_code != ErrorCode.NONE:
            errors = [answer.error_code] * len(self._open[exchange.number])
        self._end_deletions(exchange, errors)

    def _all_deleted(self, exchange: Exchange) -> None:
        count = len(self._open.get(exchange.number, ()))
        self._end_deletions(exchange, [exchange.response.results[0].error_code] * count)

    def _end_deletions(self, exchange: Exchange, errors: list[int]) -> None:
        deletions = self._open.pop(exchange.number, [])
        for (key, deletion), error_code in zip(deletions, errors, strict=True):
            error = ErrorCode(error_code)
            deletion.over_at = self.world.loop.time()
            # A repetition finds nothing to delete any more.
            if error in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                deletion.is_acknowledged = True
            elif error not in UNKNOWN_OUTCOME:
                self._of_group(exchange)[key].remove(deletion)

    # Fetches.

    def _fetched(self, exchange: Exchange) -> None:
        answer = exchange.response
        found = answer.groups[0] if answer.groups else answer
        if found.error_code != ErrorCode.NONE:
            return
        offsets: dict[Key, int] = {}
        for topic in found.topics:
            name = topic.name or self._name(topic.topic_id)
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE and name is not None:
                    offsets[name, partition.partition_index] = partition.committed_offset
        asked = exchange.request
        if (asked.groups[0].topics if asked.groups else asked.topics) is None:
            # Whoever asks for everything is not told of what is not there.
            offsets = dict.fromkeys(self._of_group(exchange), NO_OFFSET) | offsets
        for key, offset in offsets.items():
            if key[0] in self.world.nodes.cluster.catalog.topics:
                self._check(exchange, key, offset)

    def _name(self, topic_id: Any) -> str | None:
        topic = self.world.nodes.cluster.catalog.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _check(self, exchange: Exchange, key: Key, offset: int) -> None:
        """A fetch sees the last commit, or one at the same time."""
        assert exchange.arrived_at is not None
        commits = self._of_group(exchange).get(key, [])
        settled = [
            commit.arrived_at
            for commit in commits
            if commit.is_acknowledged and commit.over_at < exchange.arrived_at
        ]
        # The fetch came after all of these were acknowledged: nothing that was over before the last of them began.
        since = max(settled, default=float("-inf"))
        if offset == NO_OFFSET and not settled:
            return
        seen = [commit for commit in commits if commit.offset == offset and commit.over_at >= since]
        if not seen:
            text = f"#{exchange.number}: {{}} has offset {{}}, which is not the last one"
            self.world.check(False, text, key, offset)
        if len(seen) == 1:
            # What somebody has seen stays, whatever the committer was told.
            seen[0].is_acknowledged = True
            seen[0].over_at = min(seen[0].over_at, self.world.loop.time())


def committed_offsets(request: Any) -> Iterator[tuple[Key, int]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.name, partition.partition_index), partition.committed_offset


def commit_errors(response: Any) -> list[ErrorCode]:
    """In the order of `committed_offsets`."""
    return [
        ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ]


def group_id_of(request: Any) -> str | None:
    """The group that a request is about."""
    for several in ("groups", "groups_names", "group_ids"):
        found = getattr(request, several, None)
        if found:
            return found[0] if isinstance(found[0], str) else str(found[0].group_id)
    found = getattr(request, "group_id", None)
    return None if found is None else str(found)
