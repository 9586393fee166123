"""Finding, creating and deleting the ACLs of the cluster; every change is an event of the audit log."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final

from ottla.access import AclBinding, AclFilter
from ottla.broker.catalog_changes import Decision
from ottla.broker.cluster import Cluster
from ottla.broker.loop.loop_share import Steps, awaited
from ottla.broker.requests.gather_responses import NowOrLater, then
from ottla.broker.security.audit import LOGGER_NAME, shown
from ottla.broker.security.caller import Caller
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.core.security.acl_changes import new_acls
from ottla.core.security.acls import AclTable
from ottla.events import EventLog

logger = EventLog(LOGGER_NAME)

# A filter looks at this many ACLs between two pauses.
ACLS_PER_STEP: Final = 64
# How many ACLs of a request the log names.
MAX_NAMED: Final = 20


def matching_acls(
    acls: AclTable, wanted: AclFilter
) -> Generator[None, None, list[tuple[str, AclBinding]]]:
    """The ACLs that a filter means, with their ids; None after each step."""
    if wanted.is_exact:
        found = acls.exactly(wanted)
        return [] if found is None else [found]
    matching = []
    for number, (acl_id, acl) in enumerate(acls.items()):
        if wanted.matches(acl):
            matching.append((acl_id, acl))
        if number % ACLS_PER_STEP == ACLS_PER_STEP - 1:
            yield
    return matching


def create_acls(
    cluster: Cluster, acls: Sequence[AclBinding], caller: Caller
) -> Steps[Refused | None]:
    """Creates those that do not exist, durably and in one step; the caller has checked them."""
    catalog = cluster.catalog
    entries: dict[AclBinding, Changes] = {}
    for acl in acls:
        yield None
        if acl not in catalog.acls:
            entries[acl] = catalog.create_acls([acl])

    decided: list[list[AclBinding] | Refused] = []

    def decide() -> Decision[None]:
        decided.append(new_acls(catalog.acls, acls))
        changes: Changes = {}
        if not isinstance(decided[-1], Refused):
            for acl in decided[-1]:
                # One that did exist may have been deleted meanwhile.
                changes |= entries.get(acl) or catalog.create_acls([acl])
        return Decision(changes, None)

    failed = yield from awaited(cluster.change(decide))
    new = decided[-1]
    if failed is not None or isinstance(new, Refused):
        return new if isinstance(new, Refused) else failed
    if new:
        _log_change("acls_created", "created", new, caller)
    return None


def delete_acls(
    cluster: Cluster, acls: Mapping[str, AclBinding], caller: Caller
) -> NowOrLater[Refused | None]:
    """Deletes ACLs by their ids, durably and in one step."""
    catalog = cluster.catalog

    found: dict[str, AclBinding] = {}

    def decide() -> Decision[None]:
        found.clear()
        found.update((acl_id, acl) for acl_id, acl in acls.items() if acl in catalog.acls)
        return Decision(catalog.delete_acls(found), None)

    def deleted(refused: Refused | None) -> Refused | None:
        if refused is None and found:
            _log_change("acls_deleted", "deleted", list(found.values()), caller)
        return refused

    return then(cluster.change(decide), deleted)


def _log_change(event: str, verb: str, acls: Sequence[AclBinding], caller: Caller) -> None:
    named = [_text(acl) for acl in acls[:MAX_NAMED]]
    if len(acls) > MAX_NAMED:
        named.append(f"{len(acls) - MAX_NAMED} more")
    logger.info(
        event,
        "%(principal)s %(verb)s %(count)d ACL(s) from %(host)s: %(acls)s",
        principal=shown(str(caller.principal)),
        verb=verb,
        count=len(acls),
        host=caller.peer.host,
        acls="; ".join(named),
    )


def _text(acl: AclBinding) -> str:
    """An ACL as a log has it."""
    host = "" if acl.host == "*" else f" from {shown(acl.host)}"
    return (
        f"{acl.permission.name} {shown(acl.principal)}{host} {acl.operation.name} "
        f"on {acl.resource_type.name} {acl.pattern_type.name} '{shown(acl.name)}'"
    )
