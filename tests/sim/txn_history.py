"""What transactional producers wanted and what became of it, as far as the network can tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.sim.network import Exchange
from tests.sim.world import World

from ottla.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest

Place = tuple[str, int]  # a topic and one of its partitions

# What the coordinator says when it has done nothing, and will not.
REFUSALS = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Identity(NamedTuple):
    """Who a producer is; later ones of a transactional id are greater, since producer ids only rise."""

    producer_id: int
    epoch: int


@dataclass(eq=False)
class Transaction:
    """What a producer sends between two ends."""

    number: int
    producer: str
    transactional_id: str
    identity: Identity
    values: dict[Place, list[str]] = field(default_factory=dict)
    group_id: str | None = None
    offset: int = 0  # that the group is at if it is committed
    commits: list[Exchange] = field(default_factory=list)  # that reached a node

    def outcome(self) -> str:
        """Whether readers must see it, must not, or may."""
        if any(_error(exchange) is ErrorCode.NONE for exchange in self.commits):
            return COMMITTED
        if all(_error(exchange) in REFUSALS for exchange in self.commits):
            return ABORTED
        return UNKNOWN


def _error(exchange: Exchange) -> ErrorCode | None:
    return None if exchange.response is None else ErrorCode(exchange.response.error_code)


class Given(NamedTuple):
    """An identity that a node has answered, and when."""

    identity: Identity
    at: float


class Told(NamedTuple):
    """An offset that a group is at, since somebody was told of it or of the end of its transaction."""

    offset: int
    at: float


class TxnHistory:
    """Watches a network: which ends arrive, which identities are given."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.transactions: list[Transaction] = []
        self.values: dict[str, Transaction] = {}
        self.plain: dict[str, None] = {}  # values of no transaction that were acknowledged
        self._ends: dict[int, Transaction] = {}  # by the request, which a repetition shares
        self._given: dict[str, list[Given]] = {}
        self._inits: dict[str, list[Given]] = {}
        self._owners: dict[int, str] = {}
        self._offsets: dict[str, list[Told]] = {}
        world.network.on_arrival.append(self._arrived)
        world.network.on_answer.append(self._answered)

    def begin(self, producer: str, transactional_id: str, identity: Identity) -> Transaction:
        number = len(self.transactions)
        transaction = Transaction(number, producer, transactional_id, identity)
        self.transactions.append(transaction)
        return transaction

    def add_value(self, transaction: Transaction, place: Place, value: str) -> None:
        transaction.values.setdefault(place, []).append(value)
        self.values[value] = transaction

    def commits_with(self, transaction: Transaction, request: EndTxnRequest) -> None:
        self._ends[id(request)] = transaction

    def _arrived(self, exchange: Exchange) -> None:
        transaction = self._ends.get(id(exchange.request))
        if transaction is not None:
            transaction.commits.append(exchange)

    def _answered(self, exchange: Exchange) -> None:
        name = exchange.name
        if name == "OffsetFetch" and exchange.request.require_stable:
            self._fetched(exchange)
        if name not in ("InitProducerId", "EndTxn"):
            return
        if exchange.response.error_code != ErrorCode.NONE:
            return
        if name == "InitProducerId":
            self._initialized(exchange)
        else:
            self._ended(exchange)

    def _initialized(self, exchange: Exchange) -> None:
        """Every producer gets an identity above those that were given before it asked."""
        request, given = exchange.request, identity_in(exchange.response)
        transactional_id = request.transactional_id
        if transactional_id is None:
            return
        self._own(given, transactional_id, exchange)
        for earlier in self._before(self._given, transactional_id, exchange):
            # A call that says who the producer was may be a repetition of one that was answered.
            may_repeat = request.producer_id >= 0
            is_fine = given > earlier or (may_repeat and given == earlier)
            self._check(is_fine, exchange, "{} is given after {}", given, earlier)
        self._give(self._given, transactional_id, given)
        self._give(self._inits, transactional_id, given)

    def _ended(self, exchange: Exchange) -> None:
        request = exchange.request
        asked = Identity(request.producer_id, request.producer_epoch)
        for newer in self._before(self._inits, request.transactional_id, exchange):
            self._check(
                asked >= newer, exchange, "{} ends a transaction after {} was given", asked, newer
            )
        transaction = self._ends.get(id(request))
        if transaction is not None and transaction.group_id is not None:
            self._tell(transaction.group_id, transaction.offset)
        given = identity_in(exchange.response)
        if given.producer_id < 0:
            return  # an older version
        self._own(given, request.transactional_id, exchange)
        for earlier in self._before(self._given, request.transactional_id, exchange):
            self._check(given >= earlier, exchange, "{} is given after {}", given, earlier)
        self._check(given > asked, exchange, "{} goes on as {}", asked, given)
        self._give(self._given, request.transactional_id, given)

    def _fetched(self, exchange: Exchange) -> None:
        """Whoever wants what is stable is told of everything that was committed before, or has to wait."""
        answer = exchange.response
        found = answer.groups[0] if answer.groups else answer
        if found.error_code != ErrorCode.NONE:
            return
        partition = found.topics[0].partitions[0]
        if partition.error_code != ErrorCode.NONE:
            return
        group_id = found.group_id if answer.groups else exchange.request.group_id
        assert exchange.arrived_at is not None
        for told in self._offsets.get(group_id, ()):
            self._check(
                told.at >= exchange.arrived_at or partition.committed_offset >= told.offset,
                exchange,
                "{} is at {} after {}",
                group_id,
                partition.committed_offset,
                told.offset,
            )
        self._tell(group_id, partition.committed_offset)

    def _tell(self, group_id: str, offset: int) -> None:
        self._offsets.setdefault(group_id, []).append(Told(offset, self.world.loop.time()))

    def _own(self, given: Identity, transactional_id: str, exchange: Exchange) -> None:
        owner = self._owners.setdefault(given.producer_id, transactional_id)
        self._check(owner == transactional_id, exchange, "{} was given to {}", given, owner)

    def _give(self, kept: dict[str, list[Given]], transactional_id: str, given: Identity) -> None:
        kept.setdefault(transactional_id, []).append(Given(given, self.world.loop.time()))

    def _before(
        self, kept: dict[str, list[Given]], transactional_id: str, exchange: Exchange
    ) -> list[Identity]:
        """What had been answered when a request arrived."""
        assert exchange.arrived_at is not None
        return [
            given.identity
            for given in kept.get(transactional_id, ())
            if given.at < exchange.arrived_at
        ]

    def _check(self, condition: bool, exchange: Exchange, text: str, *values: Any) -> None:
        if not condition:
            self.world.check(False, f"#{exchange.number}: {text}", *values)


def identity_in(response: Any) -> Identity:
    return Identity(response.producer_id, response.producer_epoch)
