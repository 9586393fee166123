"""Asks the cluster what users may see, and remembers the answers for some seconds."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final
from weakref import WeakKeyDictionary

from ottla.client.admin_model.acls import (
    AclBinding,
    AclFilter,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ottla.client.aio.admin.client import Admin
from ottla.console.access.identity import Identity
from ottla.console.access.visible import SeenNames, Visible
from ottla.console.clients import Clients
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.http.errors import ApiError
from ottla.errors import (
    ErrorCode,
    KafkaError,
    OttlaError,
    PartialFailureError,
    RetriableError,
    TimedOutError,
)
from ottla.events import EventLog

logger = EventLog(__name__)

# As old as what is known of a user's role may be.
KEPT_SECONDS: Final = 15.0
# Names that appeared since the last question are asked for sooner, so that a user finds a topic that it created.
MIN_SECONDS: Final = 1.0
# The questions of one user take at most this part of the time.
MAX_SHARE: Final = 1 / 20
MAX_WAIT_SECONDS: Final = 10.0
# A cluster that does not answer shows what it showed; it is not asked by each request.
RETRY_SECONDS: Final = 5.0
SHORT_WAIT_SECONDS: Final = 3.0

Names = frozenset[str]


class Visibility:
    """One for a console; users are told apart by their clients, and forgotten with them."""

    def __init__(
        self, clients: Clients, poller: ClusterPoller, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._clients = clients
        self._poller = poller
        self._now = now
        self._users: WeakKeyDictionary[Clients, _UserView] = WeakKeyDictionary()

    async def of(self, identity: Identity) -> Visible:
        """What this identity sees now; ApiError if nobody knows."""
        snapshot = await self._poller.first()
        if identity.clients is self._clients:
            return Visible(snapshot, None)
        view = self._users.get(identity.clients)
        if view is None:
            view = self._users[identity.clients] = _UserView(identity, self._clients, self._now)
        return await view.visible(snapshot)


class _UserView:
    """What one user sees; all requests of the user share one question."""

    def __init__(self, identity: Identity, own: Clients, now: Callable[[], float]) -> None:
        self._user = identity
        self._own = own
        self._now = now
        self._names: SeenNames | None = None
        self._asked_about: ClusterSnapshot | None = None
        self._asked_at = 0.0
        self._fresh_until = 0.0
        self._soonest = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._latest: Visible | None = None

    async def visible(self, snapshot: ClusterSnapshot) -> Visible:
        if self._is_due(snapshot):
            await self._ask(snapshot)
        assert self._names is not None
        latest = self._latest
        if latest is None or latest.whole is not snapshot or latest.names is not self._names:
            latest = self._latest = Visible(snapshot, self._names)
        return latest

    def _is_due(self, snapshot: ClusterSnapshot) -> bool:
        now = self._now()
        if self._names is None or now >= self._fresh_until:
            return True
        asked = self._asked_about
        if asked is None or asked is snapshot or now < self._soonest:
            return False
        if (
            snapshot.topics.keys() == asked.topics.keys()
            and snapshot.groups.keys() == asked.groups.keys()
            and snapshot.transactions.keys() <= asked.transactions.keys()
        ):
            self._asked_about = snapshot
            return False
        return True

    async def _ask(self, snapshot: ClusterSnapshot) -> None:
        """Returns when the names are known anew, or known still."""
        asking = self._asking
        if asking is None or asking.done():
            asking = self._asking = asyncio.get_running_loop().create_task(self._find(snapshot))
        limit = MAX_WAIT_SECONDS if self._names is None else SHORT_WAIT_SECONDS
        await asyncio.wait([asking], timeout=limit)
        error = asking.exception() if asking.done() and not asking.cancelled() else None
        if error is not None and not _is_passing(error):
            # The user is logged in no longer, or may not ask: nothing is shown.
            self._names = None
            raise error
        if self._names is not None:
            return
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the cluster does not tell what you may see" + (f": {error}" if error else ""),
            "the console goes on trying: look again in a moment",
        )

    async def _find(self, snapshot: ClusterSnapshot) -> None:
        began = self._now()
        try:
            admin = self._user.clients.admin()
            topics = frozenset(await admin.list_topics(list_internal=True))
            groups = await seen_groups(admin, self._own, self._user.name, snapshot.groups)
            names = SeenNames(topics, groups, await _transactional_ids(admin))
        except BaseException as error:
            self._fresh_until = self._soonest = self._now() + RETRY_SECONDS
            if isinstance(error, OttlaError) and _is_passing(error) and self._names is not None:
                logger.debug("console_view_not_known", "%(reason)s", reason=str(error))
                return
            raise
        took = self._now() - began
        self._names, self._asked_about = names, snapshot
        self._soonest = began + max(MIN_SECONDS, took / MAX_SHARE)
        self._fresh_until = began + max(KEPT_SECONDS, took / MAX_SHARE)


def _is_passing(error: BaseException) -> bool:
    """Whether the cluster does not answer now, which says nothing of the user's rights."""
    return isinstance(error, RetriableError)


async def _transactional_ids(admin: Admin) -> Names:
    """All ids that the user may describe; brokers that do not answer, or are older than Kafka 3.0, tell none."""
    try:
        return frozenset(await admin.list_transactions())
    except PartialFailureError as error:
        return frozenset(error.results)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return frozenset()
        raise


# Groups


async def seen_groups(admin: Admin, own: Clients, user: str, names: Iterable[str]) -> Names:
    """Those of these groups that a user may describe.

    A listing does not tell: who may describe the cluster is told all groups. So the user's connection asks for each
    of them, for no partition of it. The cluster's log has a line for each that is refused, so those that no ACL can
    allow are not asked.
    """
    every = list(names)
    if not every:
        return frozenset()
    # A name that no ACL can mean: who may see this one may see what no ACL denies.
    nobodys = f"console-{secrets.token_hex(16)}"
    if not await _seen(admin, [nobodys]):
        allowing = await _allowing(own.admin(), user)
        if allowing is not None:
            every = [name for name in every if any(_matches(acl, name) for acl in allowing)]
    return await _seen(admin, every)


async def _seen(admin: Admin, names: list[str]) -> Names:
    if not names:
        return frozenset()
    try:
        return frozenset(await admin.list_consumer_group_offsets(dict.fromkeys(names, ())))
    except PartialFailureError as error:
        known = set(error.results)
        # The cluster looks at rights first: who gets another error may describe the group.
        known.update(name for name, cause in error.errors.items() if _came_past_rights(cause))
        return frozenset(known)
    except KafkaError as error:
        if len(names) > 1 or isinstance(error, TimedOutError):
            raise
        return frozenset(names) if _came_past_rights(error) else frozenset()


def _came_past_rights(error: KafkaError) -> bool:
    return error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED and not isinstance(
        error, TimedOutError
    )


async def _allowing(admin: Admin, user: str) -> list[AclBinding] | None:
    """The ACLs that may allow the user to describe a group; None if the console may not read them."""
    wanted = AclFilter(resource_type=AclResourceType.GROUP, permission=AclPermission.ALLOW)
    try:
        found = await admin.describe_acls(wanted)
    except OttlaError:
        return None
    return [acl for acl in found if acl.principal in (f"User:{user}", "User:*")]


def _matches(acl: AclBinding, name: str) -> bool:
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in ("*", name)
