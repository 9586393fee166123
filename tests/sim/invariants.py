"""What must hold of consumer groups whatever happens, checked on every request and answer as a node sees them.

A coordinator keeps in memory what it has not written: a generation that has begun and was not synced, a member that has
left. Another coordinator of the same group begins with what was written. So some rules hold only between requests to
one and the same coordinator, during its term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.sim.members import STATIC, partitions_of
from tests.sim.network import Exchange
from tests.sim.offset_invariants import OffsetChecks, commit_errors, group_id_of
from tests.sim.world import World

from ottla.broker.coordination.coordinator import Coordinator
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.group.machine import GroupMachine
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition


@dataclass
class Term:
    """What a coordinator has told, from its replay until it is gone."""

    generation: int = 0  # the highest that it told somebody
    left: dict[str, None] = field(default_factory=dict)
    newest_ids: dict[str, str] = field(default_factory=dict)  # of static members


class Arrival(NamedTuple):
    """What was known when a request reached a node."""

    term: Term | None  # None: the coordinator was not there yet
    begun_generation: int  # in this term
    synced_generation: int


@dataclass
class Generation:
    """What is known of a generation."""

    members: dict[str, None] = field(default_factory=dict)
    leaders: dict[str, None] = field(default_factory=dict)  # more than one after a crash
    proposals: list[dict[str, bytes]] = field(default_factory=list)
    assigned: dict[str, bytes] = field(
        default_factory=dict
    )  # by owner: an instance id or a member id


@dataclass
class Group:
    """What the requests and answers tell of a group."""

    terms: dict[Coordinator[GroupMachine], Term] = field(default_factory=dict)
    generations: dict[int, Generation] = field(default_factory=dict)
    synced_generation: int = 0


class GroupChecks:
    """Watches a network."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetChecks(world)
        self.member_ids: dict[str, None] = {}
        self._arrivals: dict[int, Arrival] = {}
        world.network.on_arrival.append(self._arrived)
        world.network.on_answer.append(self._answered)
        self._on_arrival: dict[str, Callable[[Exchange, Group], None]] = {
            "SyncGroup": self._sync_arrives,
        }
        self._on_answer: dict[str, Callable[[Exchange, Group], None]] = {
            "JoinGroup": self._joined,
            "SyncGroup": self._synced,
            "Heartbeat": self._beaten,
            "LeaveGroup": self._left,
            "OffsetCommit": self._committed,
        }

    # Which term a request fell into.

    def _term(self, exchange: Exchange, group_id: str) -> Term | None:
        node = self.world.nodes.running.get(exchange.node_id)
        topic = self.world.nodes.cluster.catalog.topics.get(GROUPS_TOPIC)
        if node is None or topic is None:
            return None
        partition = coordinator_partition(group_id, topic.partition_count)
        coordinator = node.groups._loaded.get(partition)
        if coordinator is None or not coordinator.is_loaded:
            return None  # whatever it answers now, it does not know the group yet
        return self.groups[group_id].terms.setdefault(coordinator, Term())

    def _arrived(self, exchange: Exchange) -> None:
        group_id = group_id_of(exchange.request)
        if group_id is None:
            return
        group = self.groups.setdefault(group_id, Group())
        term = self._term(exchange, group_id)
        begun = 0 if term is None else term.generation
        self._arrivals[exchange.number] = Arrival(term, begun, group.synced_generation)
        look = self._on_arrival.get(exchange.name)
        if look is not None:
            look(exchange, group)

    def _answered(self, exchange: Exchange) -> None:
        look = self._on_answer.get(exchange.name)
        if look is not None:
            look(exchange, self.groups[str(group_id_of(exchange.request))])

    def _term_of_answer(self, exchange: Exchange) -> Term | None:
        return self._term(exchange, str(group_id_of(exchange.request)))

    def _answering_term(self, exchange: Exchange) -> Term | None:
        """The term that an answer is of; None if that is over: it was decided, and had to wait for the disk."""
        arrived, now = self._arrivals[exchange.number].term, self._term_of_answer(exchange)
        return now if arrived is None or arrived is now else None

    def _is_in_one_term(self, exchange: Exchange) -> bool:
        """Whether a request was handled and answered by the same coordinator."""
        term = self._arrivals[exchange.number].term
        return term is not None and self._term_of_answer(exchange) is term

    def _known_generation(self, exchange: Exchange) -> int:
        """The lowest generation that the group could be in when the request reached its coordinator."""
        arrival = self._arrivals[exchange.number]
        if self._is_in_one_term(exchange):
            return max(arrival.begun_generation, arrival.synced_generation)
        return arrival.synced_generation

    def _check(self, condition: bool, exchange: Exchange, text: str, *values: Any) -> None:
        if not condition:
            self.world.check(False, f"#{exchange.number}: {text}", *values)

    # Joining.

    def _joined(self, exchange: Exchange, group: Group) -> None:
        request, answer = exchange.request, exchange.response
        error = ErrorCode(answer.error_code)
        is_given = error is ErrorCode.MEMBER_ID_REQUIRED or (
            error is ErrorCode.NONE and not request.member_id
        )
        if is_given:
            member_id = answer.member_id
            self._check(member_id not in self.member_ids, exchange, "{} was used before", member_id)
            self.member_ids[member_id] = None
        if error is not ErrorCode.NONE:
            return
        generation = answer.generation_id
        known = self._known_generation(exchange)
        self._check(
            generation >= known, exchange, "generation {} comes after {}", generation, known
        )
        term = self._answering_term(exchange)
        if term is not None:
            term.generation = max(term.generation, generation)
        if request.group_instance_id is not None and term is not None:
            term.newest_ids[request.group_instance_id] = answer.member_id
        begun = group.generations.setdefault(generation, Generation())
        begun.members[answer.member_id] = None
        begun.leaders[answer.leader] = None

    # Syncing.

    def _sync_arrives(self, exchange: Exchange, group: Group) -> None:
        request = exchange.request
        generation = group.generations.setdefault(request.generation_id, Generation())
        if request.assignments and request.member_id in generation.leaders:
            generation.proposals.append(
                {given.member_id: bytes(given.assignment) for given in request.assignments}
            )

    def _synced(self, exchange: Exchange, group: Group) -> None:
        request, answer = exchange.request, exchange.response
        if answer.error_code != ErrorCode.NONE:
            return
        number = request.generation_id
        known = self._known_generation(exchange)
        self._check(number >= known, exchange, "generation {} is synced after {}", number, known)
        generation = group.generations.setdefault(number, Generation())
        group.synced_generation = max(group.synced_generation, number)
        assignment = bytes(answer.assignment)
        owner = owner_of(request.member_id)
        before = generation.assigned.setdefault(owner, assignment)
        self._check(
            before == assignment, exchange, "{} has another assignment in {}", owner, number
        )
        mine = set(partitions_of(assignment))
        for other, theirs in generation.assigned.items():
            shared = mine.intersection(partitions_of(theirs)) if other != owner else None
            self._check(
                not shared, exchange, "{} and {} both own {}", owner, other, sorted(shared or ())
            )
        # Everybody's assignment is from one and the same request of the leader.
        generation.proposals = [
            proposal
            for proposal in generation.proposals
            if _proposed(proposal, owner) == assignment
        ]
        self._check(bool(generation.proposals), exchange, "no leader assigned this to {}", owner)

    def _beaten(self, exchange: Exchange, group: Group) -> None:
        number, known = exchange.request.generation_id, self._known_generation(exchange)
        is_known = exchange.response.error_code in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
        )
        # Before its replay is over a coordinator believes everybody.
        if is_known and self._is_in_one_term(exchange):
            self._check(
                number >= known, exchange, "a heartbeat of generation {} after {}", number, known
            )

    def _left(self, exchange: Exchange, group: Group) -> None:
        term = self._term_of_answer(exchange)
        if term is None or exchange.response.error_code != ErrorCode.NONE:
            return
        if exchange.version < 3:
            term.left[exchange.request.member_id] = None
        for member in exchange.response.members:
            if member.error_code == ErrorCode.NONE:
                term.left[member.member_id] = None

    # Offsets.

    def _committed(self, exchange: Exchange, group: Group) -> None:
        """Whether a member might commit."""
        request = exchange.request
        accepted = ErrorCode.NONE in commit_errors(exchange.response)
        if not accepted or request.generation_id_or_member_epoch < 0:
            return
        number, member_id = request.generation_id_or_member_epoch, request.member_id
        known, term = self._known_generation(exchange), self._arrivals[exchange.number].term
        self._check(number >= known, exchange, "a commit of generation {} after {}", number, known)
        generation = group.generations.get(number)
        self._check(
            generation is not None and member_id in generation.members,
            exchange,
            "{} commits in generation {}, which it is not in",
            member_id,
            number,
        )
        if term is None or not self._is_in_one_term(exchange):
            return
        self._check(member_id not in term.left, exchange, "{} has left", member_id)
        newest = term.newest_ids.get(owner_of(member_id), member_id)
        self._check(newest == member_id, exchange, "{} is fenced by {}", member_id, newest)


def owner_of(member_id: str) -> str:
    """Who owns what a member was assigned: a static member is the same one under another id.

    Member ids are made of the instance id, or else the client id, and a UUID.
    """
    name = member_id.rsplit("-", 5)[0]
    return name if name.startswith(STATIC) else member_id


def _proposed(proposal: dict[str, bytes], owner: str) -> bytes:
    """What a leader assigned to a member, under whichever id it knew it."""
    for member_id, assignment in proposal.items():
        if owner_of(member_id) == owner:
            return assignment
    return b""
