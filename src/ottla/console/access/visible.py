"""What of the cluster a user may see: the cluster's ACLs decide, and the console asks with the user's own connection.

What the console knows by its own connection (snapshot, history, journals, watches) is shared by all browsers. Before an
API module tells any of it, it asks `visible = await call.visible()`:

- `visible.snapshot` is the poller's snapshot without what the user may not describe. API modules use it, and never
  `call.console.poller.current()` (tests/console/access checks that).
- `visible.sees_topic(name)`, `sees_group(name)`, `sees_transactional_id(name)` are for names from elsewhere.
- A live event that is about some of these says so (`ServerEvent.topics`, `.groups`, `.transactional_ids`): only
  users who may see all of them are told.

What is answered by the user's own connection (`call.identity.clients`) needs none of this: the cluster checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.cluster.snapshot_part import part_of
from ottla.console.http.routes import ServerEvent


@dataclass(frozen=True)
class SeenNames:
    """What the cluster tells a user of, as it was when the console asked."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Visible:
    """What one user sees of one snapshot; `names` is None for who uses the console's own connection and sees all."""

    whole: ClusterSnapshot = field(repr=False)
    names: SeenNames | None = field(repr=False)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is hidden from this user."""
        return self.names is None

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The snapshot as this user may see it."""
        if self.names is None:
            return self.whole
        return part_of(self.whole, self.sees_topic, self.sees_group, self.sees_transactional_id)

    def sees_topic(self, name: str) -> bool:
        """Whether the user may describe the topic."""
        return self.names is None or name in self.names.topics

    def sees_group(self, name: str) -> bool:
        """Whether the user may describe the group."""
        return self.names is None or name in self.names.groups

    def sees_transactional_id(self, name: str) -> bool:
        """Whether the user may describe the transactional id."""
        return self.names is None or name in self.names.transactional_ids

    def sees(self, event: ServerEvent) -> bool:
        """Whether the user may see all that an event is about."""
        return (
            _all(self.sees_topic, event.topics)
            and _all(self.sees_group, event.groups)
            and _all(self.sees_transactional_id, event.transactional_ids)
        )


def _all(sees: Callable[[str], bool], names: Iterable[str]) -> bool:
    return all(map(sees, names))
