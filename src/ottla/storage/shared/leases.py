"""What the broker knows of the lease of its node, and of the others: the port for who leads what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ottla.model import Endpoint
from ottla.ports import PartitionRef
from ottla.ports.leases import BrokerAddresses, Holding, SharedMember
from ottla.storage.shared.claims import Claims
from ottla.storage.shared.holders import Holders
from ottla.storage.shared.sequencer.records import BrokerDescription, Holder, MemberState
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session


class SharedLeases:
    """Implements Leases."""

    def __init__(
        self, sequencer: Sequencer, session: Session, holders: Holders, claims: Claims
    ) -> None:
        self._sequencer = sequencer
        self._session = session
        self._holders = holders
        self._claims = claims
        self._live: dict[int, MemberState] = {}
        self._members_follower: Callable[[], None] = lambda: None
        self._holdings_follower: Callable[[], None] = lambda: None
        self._note_live()
        session.members_changed.append(self._members_changed)
        session.lost.append(self._holdings_changed)
        holders.followers.append(lambda changed, deleted: self._holdings_changed())

    @property
    def node_id(self) -> int:
        return self._session.node_id

    def may_lead(self) -> bool:
        return self._session.may_lead()

    def members(self) -> Sequence[SharedMember]:
        members = sorted(self._session.members, key=lambda member: member.node_id)
        return [
            SharedMember(member.node_id, _addresses_of(member), member.rack, member.is_live)
            for member in members
        ]

    def holding(self, ref: PartitionRef) -> Holding | None:
        holder = self._holders.find(ref)
        if holder is None:
            return None
        is_own = holder.session == self._session.id
        return Holding(
            holder.node_id, holder.epoch, self._is_held(holder, is_own), is_own, holder.wanted_node
        )

    def _is_held(self, holder: Holder, is_own: bool) -> bool:
        if holder.session is None:
            return False
        if is_own:
            return True
        member = self._live.get(holder.node_id)
        return member is not None and member.session == holder.session

    def follow(
        self,
        members: Callable[[], None],
        holdings: Callable[[], None],
        exists: Callable[[PartitionRef], bool],
    ) -> None:
        self._members_follower = members
        self._holdings_follower = holdings
        self._claims.exists = exists

    def _note_live(self) -> None:
        self._live = {member.node_id: member for member in self._session.members if member.is_live}

    def _members_changed(self) -> None:
        self._note_live()
        self._members_follower()
        # Who is not live holds nothing.
        self._holdings_follower()

    def _holdings_changed(self) -> None:
        self._holdings_follower()

    async def describe(self, addresses: BrokerAddresses) -> None:
        def described(broker: BrokerDescription) -> BrokerDescription:
            return broker._replace(
                endpoints=_texts_of(addresses.endpoints),
                advertised=_texts_of(addresses.advertised),
                peer="" if addresses.peer is None else str(addresses.peer),
                certificate=addresses.certificate,
            )

        await self._session.describe(described)

    async def claim(self, refs: Sequence[PartitionRef]) -> None:
        # A second claim would get a new epoch, and end the first.
        await self._claims.claim_all([ref for ref in refs if not self._claims.has(ref)])

    async def release(self, wanted: Mapping[PartitionRef, int | None]) -> None:
        await self._claims.release(wanted)

    async def forget_node(self, node_id: int) -> bool:
        forgotten = await self._sequencer.remove_broker(node_id)
        await self._session.beat()
        return forgotten

    async def take_task(self, task: str, seconds: float) -> bool:
        return await self._sequencer.take_task(self._session.id, task, int(seconds * 1000))


def _addresses_of(member: MemberState) -> BrokerAddresses:
    return BrokerAddresses(
        endpoints=_endpoints_of(member.endpoints),
        advertised=_endpoints_of(member.advertised),
        peer=Endpoint.parse(member.peer) if member.peer else None,
        certificate=member.certificate,
    )


def _texts_of(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    return {name: str(endpoint) for name, endpoint in endpoints.items()}


def _endpoints_of(texts: Mapping[str, str]) -> dict[str, Endpoint]:
    return {name: Endpoint.parse(text) for name, text in texts.items()}
