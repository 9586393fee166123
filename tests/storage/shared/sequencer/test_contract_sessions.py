"""Sessions, tasks, the catalog and who holds what, on both sequencers."""

from __future__ import annotations

import uuid

import pytest
from tests.storage.shared.sequencer.backends import (
    LEASE_MS,
    Backend,
    broker,
    claim_all,
    part,
    refs,
    story,
)

from ottla.ports import CatalogConflictError, FencedError, JsonValue, PartitionRef
from ottla.ports.errors import InUseError
from ottla.storage.shared.sequencer.records import AppendOutcome, NotClaimed

OK = [AppendOutcome.OK]
FENCED = [AppendOutcome.FENCED]


@story
async def test_names_keep_their_node_ids(place: Backend) -> None:
    first, second = await place.connect(), await place.connect()
    a, b = await first.register(broker("a")), await second.register(broker("b"))
    assert (a.node_id, b.node_id, a.lease_ms) == (1, 2, LEASE_MS)
    assert a.cluster_id == b.cluster_id
    await first.end_session(a.session)
    again = await first.register(broker("a"))
    assert again.node_id == 1
    assert again.session != a.session
    assert (await first.register(broker("c", 9))).node_id == 9
    assert (await first.register(broker("d"))).node_id == 10


@story
async def test_a_name_or_an_id_with_a_lease_cannot_be_taken(place: Backend) -> None:
    sequencer = await place.connect()
    await sequencer.register(broker("a", 1))
    with pytest.raises(InUseError, match='a broker with the name "a" and the node id 1 is running'):
        await sequencer.register(broker("a"))
    with pytest.raises(InUseError):
        await sequencer.register(broker("b", 1))
    await place.advance(LEASE_MS + 1)
    await sequencer.register(broker("b", 1))


@story
async def test_a_heartbeat_has_members_and_reserves_objects(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    b = await sequencer.register(broker("b"))
    await place.advance(LEASE_MS - 10_000)
    first = await sequencer.heartbeat(a.session, 0, 2)
    await place.advance(20_000)
    second = await sequencer.heartbeat(a.session, 5, 1)
    members = {each.name: each for each in second.members}
    assert members["a"].is_live
    assert members["a"].endpoints == {"PLAINTEXT": "a:9092"}
    assert members["a"].peer == "a:9094"
    assert members["a"].rack is None
    assert (members["a"].applied_revision, members["a"].session) == (5, a.session)
    assert not members["b"].is_live
    assert members["b"].node_id == b.node_id
    keys = [each.key for each in [*first.objects, *second.objects]]
    assert len({*keys}) == 3
    assert all(key[2] == "/" and f"/{number}-" in key for number, key in enumerate(keys, 1))
    described = broker("a")._replace(
        advertised={"PLAINTEXT": "elsewhere:1"}, rack="r", certificate="c"
    )
    await sequencer.describe_broker(a.session, described)
    told = {each.name: each for each in (await sequencer.heartbeat(a.session, 5, 0)).members}["a"]
    assert (told.advertised, told.rack, told.certificate) == (
        {"PLAINTEXT": "elsewhere:1"},
        "r",
        "c",
    )


@story
async def test_a_session_that_nobody_ended_goes_on_after_its_lease(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    [claimed] = await claim_all(sequencer, a.session, refs(1))
    await place.advance(10 * LEASE_MS)
    await sequencer.heartbeat(a.session, 0, 0)
    assert list(await sequencer.append(a.session, uuid.uuid4(), [], [part(claimed, 0)])) == OK


@story
async def test_an_ended_session_can_do_nothing_for_brokers(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    await sequencer.end_session(a.session)
    await sequencer.end_session(a.session)
    with pytest.raises(FencedError):
        await sequencer.heartbeat(a.session, 0, 0)
    with pytest.raises(FencedError):
        await sequencer.claim(a.session, refs(1), 0)
    with pytest.raises(FencedError):
        await sequencer.commit_catalog(a.session, uuid.uuid4(), {"a": 1}, 0)
    with pytest.raises(FencedError):
        await sequencer.take_task(a.session, "t", 1000)
    with pytest.raises(FencedError):
        await sequencer.describe_broker(a.session, broker("a"))


@story
async def test_a_live_broker_cannot_be_removed(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    assert not await sequencer.remove_broker(a.node_id)
    assert not await sequencer.remove_broker(99)
    await place.advance(LEASE_MS + 1)
    assert await sequencer.remove_broker(a.node_id)
    with pytest.raises(FencedError):
        await sequencer.heartbeat(a.session, 0, 0)
    assert (await sequencer.register(broker("b"))).node_id == 2


@story
async def test_a_task_has_one_holder_until_its_lease_ends(place: Backend) -> None:
    sequencer = await place.connect()
    a, b = await sequencer.register(broker("a")), await sequencer.register(broker("b"))
    assert await sequencer.take_task(a.session, "collect", 10_000)
    assert await sequencer.take_task(a.session, "collect", 10_000)
    assert not await sequencer.take_task(b.session, "collect", 10_000)
    assert await sequencer.take_task(b.session, "another", 10_000)
    await place.advance(10_001)
    assert await sequencer.take_task(b.session, "collect", 10_000)
    await sequencer.end_session(b.session)
    assert await sequencer.take_task(a.session, "collect", 10_000)


# The catalog.


@story
async def test_the_catalog_changes_in_steps(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    values: dict[str, JsonValue] = {"x": {"n": [1, "two", None, 0.5]}, "y": "\0 ü", "z": True}
    assert await sequencer.commit_catalog(a.session, uuid.uuid4(), values, 0) == 1
    assert await sequencer.commit_catalog(a.session, uuid.uuid4(), {"x": None, "y": 2}, 1) == 2
    state = await sequencer.load_catalog()
    assert (state.revision, state.entries) == (2, {"y": 2, "z": True})
    changes = await sequencer.catalog_changes(0)
    assert [(each.revision, each.changes) for each in changes] == [
        (1, values),
        (2, {"x": None, "y": 2}),
    ]
    assert [each.revision for each in await sequencer.catalog_changes(1)] == [2]
    assert (await sequencer.heartbeat(a.session, 2, 0)).catalog_revision == 2
    with pytest.raises(CatalogConflictError, match="the catalog is at revision 2, not 1"):
        await sequencer.commit_catalog(a.session, uuid.uuid4(), {"x": 3}, 1)


@story
async def test_a_repeated_commit_of_the_catalog_is_made_once(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    commit = uuid.uuid4()
    assert await sequencer.commit_catalog(a.session, commit, {"x": 1}, 0) == 1
    await sequencer.commit_catalog(a.session, uuid.uuid4(), {"x": 2}, 1)
    assert await sequencer.commit_catalog(a.session, commit, {"x": 1}, 0) == 1
    assert (await sequencer.load_catalog()).entries == {"x": 2}


@story
async def test_changes_are_kept_until_all_sessions_have_applied_them(place: Backend) -> None:
    sequencer = await place.connect()
    a, b = await sequencer.register(broker("a")), await sequencer.register(broker("b"))
    for revision in range(1101):
        await sequencer.commit_catalog(a.session, uuid.uuid4(), {"x": revision}, revision)
    assert len(await sequencer.catalog_changes(0)) == 1101
    await sequencer.heartbeat(a.session, 1101, 0)
    await sequencer.heartbeat(b.session, 150, 0)
    for revision in range(1101, 1201):
        await sequencer.commit_catalog(a.session, uuid.uuid4(), {"x": revision}, revision)
    with pytest.raises(FencedError):
        await sequencer.catalog_changes(149)
    assert len(await sequencer.catalog_changes(150)) == 1051


# Who holds what.


@story
async def test_only_one_live_session_holds_a_partition(place: Backend) -> None:
    one, two = await place.connect(), await place.connect()
    a, b = await one.register(broker("a")), await two.register(broker("b"))
    held = await claim_all(one, a.session, refs(2))
    assert [(each.epoch, each.start_offset, each.end_offset) for each in held] == [(1, 0, 0)] * 2
    assert (await two.claim(b.session, refs(3)[1:], 0))[0] is NotClaimed.HELD
    again = await claim_all(one, a.session, refs(1))
    assert again[0].epoch == 2
    await one.end_session(a.session)
    taken = await claim_all(two, b.session, refs(2))
    assert [each.epoch for each in taken] == [3, 2]


@story
async def test_a_claim_ends_an_expired_session_and_has_all_that_it_appended(place: Backend) -> None:
    one, two = await place.connect(), await place.connect()
    a, b = await one.register(broker("a")), await two.register(broker("b"))
    [old] = await claim_all(one, a.session, refs(1))
    assert list(await one.append(a.session, uuid.uuid4(), [], [part(old, 0, 5)])) == OK
    await place.advance(LEASE_MS // 2)
    await two.heartbeat(b.session, 0, 0)
    assert list(await two.claim(b.session, refs(1), 0)) == [NotClaimed.HELD]
    await place.advance(LEASE_MS // 2 + 1)
    # Its session goes on until a claim ends it, and so do its appends.
    assert list(await one.append(a.session, uuid.uuid4(), [], [part(old, 5)])) == OK
    [new] = await claim_all(two, b.session, refs(1))
    assert (new.epoch, new.end_offset) == (2, 6)
    assert list(await one.append(a.session, uuid.uuid4(), [], [part(old, 6)])) == FENCED
    with pytest.raises(FencedError):
        await one.heartbeat(a.session, 0, 0)


@story
async def test_after_an_outage_nobody_judges_others_at_once(place: Backend) -> None:
    one, two = await place.connect(), await place.connect()
    a, b = await one.register(broker("a")), await two.register(broker("b"))
    await claim_all(one, a.session, refs(1))
    await place.advance(5 * LEASE_MS)  # nobody can renew
    await two.heartbeat(b.session, 0, 0)
    assert list(await two.claim(b.session, refs(1), 0)) == [NotClaimed.HELD]
    await place.advance(LEASE_MS - 1000)
    await two.heartbeat(b.session, 0, 0)
    assert list(await two.claim(b.session, refs(1), 0)) == [NotClaimed.HELD]
    await place.advance(1001)
    assert [each.epoch for each in await claim_all(two, b.session, refs(1))] == [2]


@story
async def test_a_claim_by_an_old_catalog_revives_nothing(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    await claim_all(sequencer, a.session, refs(1))
    await sequencer.commit_catalog(a.session, uuid.uuid4(), {"topic": None}, 0)
    await sequencer.delete(refs(1))
    assert list(await sequencer.claim(a.session, refs(1), 0)) == [NotClaimed.STALE]
    assert await sequencer.unclaimed(refs(1)) == {}


@story
async def test_holders_are_told_from_a_revision_on(place: Backend) -> None:
    sequencer = await place.connect()
    a, b = await sequencer.register(broker("a")), await sequencer.register(broker("b"))
    empty = await sequencer.holders(0)
    assert (empty.revision, list(empty.changed), empty.is_complete) == (0, [], True)
    claimed = await claim_all(sequencer, a.session, refs(3))
    first = await sequencer.holders(0)
    assert [(each.ref, each.node_id, each.session, each.epoch) for each in first.changed] == [
        (ref, 1, a.session, 1) for ref in refs(3)
    ]
    await sequencer.release(a.session, {claimed[1].partition_id: 2, claimed[2].partition_id: None})
    second = await sequencer.holders(first.revision)
    assert not second.is_complete
    assert [(each.ref.partition, each.session, each.wanted_node) for each in second.changed] == [
        (1, None, 2),
        (2, None, None),
    ]
    await sequencer.release(b.session, {claimed[0].partition_id: None})  # it is not b's
    await claim_all(sequencer, b.session, refs(2)[1:])
    await sequencer.delete(refs(1))
    third = await sequencer.holders(second.revision)
    assert [(each.ref.partition, each.node_id, each.epoch) for each in third.changed] == [(1, 2, 2)]
    assert list(third.deleted) == refs(1)
    assert list((await sequencer.holders(third.revision)).changed) == []
    assert (await sequencer.heartbeat(a.session, 0, 0)).holders_revision == third.revision


@story
async def test_a_caller_who_missed_deletions_is_told_everything(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    await claim_all(sequencer, a.session, refs(2))
    before = await sequencer.holders(0)
    await sequencer.delete(refs(1))
    await place.advance(25 * 3_600_000)
    await sequencer.find_garbage(10)
    after = await sequencer.holders(before.revision)
    assert after.is_complete
    assert [each.ref.partition for each in after.changed] == [1]


@story
async def test_a_deleted_topic_of_the_same_name_is_another(place: Backend) -> None:
    sequencer = await place.connect()
    a = await sequencer.register(broker("a"))
    [old] = await claim_all(sequencer, a.session, refs(1))
    await sequencer.append(a.session, uuid.uuid4(), [], [part(old, 0)])
    await sequencer.delete(refs(1))
    await sequencer.delete(refs(1))
    again = [PartitionRef("orders", 0, uuid.UUID(int=8))]
    [new] = await claim_all(sequencer, a.session, again)
    assert (new.epoch, new.end_offset) == (1, 0)
    assert new.partition_id != old.partition_id
    assert list(await sequencer.append(a.session, uuid.uuid4(), [], [part(old, 1)])) == FENCED
    assert list(await sequencer.read_runs(old.partition_id, 0, 1000)) == []


@story
async def test_changes_are_notified(place: Backend) -> None:
    one, two = await place.connect(), await place.connect()
    a = await one.register(broker("a"))
    news = two.notifications()
    assert await anext(news) == "lost"
    await one.commit_catalog(a.session, uuid.uuid4(), {"x": 1}, 0)
    assert await anext(news) == "catalog"
    await claim_all(one, a.session, refs(1), 1)
    assert await anext(news) == "holders"
    await one.heartbeat(a.session, 1, 0)
    assert await anext(news) == "applied"
    await news.aclose()  # type: ignore[attr-defined]
