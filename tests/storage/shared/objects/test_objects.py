"""What every object store does."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from tests.storage.shared.objects.conftest import OpenStore

from ottla.ports import DamagedError, StorageError
from ottla.storage.shared.errors import ForeignClusterError, ObjectMissingError
from ottla.storage.shared.objects import postgres_chunks, s3
from ottla.storage.shared.objects.cluster_identity import (
    IDENTITY_KEY,
    check_identity,
    read_identity,
    write_identity,
)
from ottla.storage.shared.objects.objects import Objects

MIB = 1024 * 1024


async def keys(store: Objects, prefix: str) -> list[str]:
    return [listed.key async for listed in store.list(prefix)]


def test_ranges_of_what_was_put_come_back(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            whole = bytearray(b"0123456789")
            await store.put("00/1-a", [memoryview(whole)[:3], b"", whole[3:], b"abc"])
            got = await store.get_ranges("00/1-a", [(0, 13), (2, 2), (12, 1), (5, 0), (0, 1)])
            assert [bytes(part) for part in got] == [b"0123456789abc", b"23", b"c", b"", b"0"]

    asyncio.run(run())


def test_an_object_of_several_chunks_comes_back_across_their_borders(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            data = os.urandom(9 * MIB + 5)
            view = memoryview(data)
            await store.put("00/2-a", [view[:7], view[7 : 3 * MIB], view[3 * MIB :]])
            ranges = [
                (0, len(data)),
                (MIB - 1, 2),
                (MIB, MIB),
                (3 * MIB - 5, 2 * MIB),
                (9 * MIB, 5),
            ]
            got = await store.get_ranges("00/2-a", ranges)
            assert [bytes(part) for part in got] == [data[at : at + n] for at, n in ranges]

    asyncio.run(run())


def test_an_object_without_bytes_exists(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            await store.put("00/3-a", [])
            assert [(each.key, each.size_bytes) async for each in store.list("")] == [("00/3-a", 0)]

    asyncio.run(run())


def test_a_missing_object_is_told_from_one_that_is_too_short(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            await store.put("00/4-a", [b"0123"])
            with pytest.raises(ObjectMissingError):
                await store.get_ranges("00/4-b", [(0, 1)])
            for position, size_bytes in ((0, 5), (3, 2), (4, 1), (100, 1)):
                with pytest.raises(DamagedError, match="has 4 bytes"):
                    await store.get_ranges("00/4-a", [(position, size_bytes)])

    asyncio.run(run())


def test_a_second_put_of_the_same_object_changes_nothing(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            for _ in range(2):
                await store.put("00/5-a", [b"same", b"bytes"])
            (got,) = await store.get_ranges("00/5-a", [(0, 9)])
            assert bytes(got) == b"samebytes"
            assert await keys(store, "") == ["00/5-a"]

    asyncio.run(run())


def test_deleted_objects_are_missing_and_may_be_deleted_again(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            for name in "abc":
                await store.put(f"00/6-{name}", [b"1"])
            for _ in range(2):
                await store.delete(["00/6-a", "00/6-none", "00/6-c"])
            assert await keys(store, "") == ["00/6-b"]
            with pytest.raises(ObjectMissingError):
                await store.get_ranges("00/6-a", [(0, 1)])
            await store.delete([])

    asyncio.run(run())


def test_a_listing_has_the_keys_of_a_prefix_in_order(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            before_ms = time.time() * 1000 - 5000
            names = ["a1/1-a", "a1/12-a", "a1/12-b", "a1/123-a", "a11/1-a", "b1/1-a", IDENTITY_KEY]
            for name in reversed(names):
                await store.put(name, [b"12"])
            assert await keys(store, "") == names
            assert await keys(store, "a1/12-") == ["a1/12-a", "a1/12-b"]
            assert await keys(store, "a1/") == names[:4]
            assert await keys(store, "a1") == names[:5]
            assert await keys(store, "a1/1-a") == ["a1/1-a"]
            assert await keys(store, "a1/2") == await keys(store, "c1/") == []
            async for listed in store.list("b1/"):
                assert listed.size_bytes == 2
                assert before_ms < listed.modified_ms < time.time() * 1000 + 5000

    asyncio.run(run())


def test_many_objects_are_listed_and_deleted_in_steps(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (s3, postgres_chunks):
        monkeypatch.setattr(module, "_LISTED_AT_ONCE", 4)
        monkeypatch.setattr(module, "_DELETED_AT_ONCE", 3)

    async def run() -> None:
        async with open_store() as store:
            names = [f"00/{number}-a" for number in range(12)]
            await asyncio.gather(*(store.put(name, [b"1"]) for name in names))
            for count in (12, 11, 8, 0):
                await store.delete(names[count:])
                assert await keys(store, "") == sorted(names[:count])

    asyncio.run(run())


def test_operations_run_at_the_same_time(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            names = [f"00/{number}-a" for number in range(40)]
            await asyncio.gather(*(store.put(name, [name.encode()]) for name in names))
            got = await asyncio.gather(*(store.get_ranges(name, [(0, 4)]) for name in names))
            assert [bytes(one) for (one,) in got] == [name.encode()[:4] for name in names]

    asyncio.run(run())


def test_a_prefix_belongs_to_one_cluster(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            assert await read_identity(store) is None
            with pytest.raises(StorageError, match=r"have no cluster\.json"):
                await check_identity(store, "one")
            for _ in range(2):
                await write_identity(store, "one")
            await check_identity(store, "one")
            for refused in (check_identity, write_identity):
                with pytest.raises(ForeignClusterError, match="belong to cluster one, not to two"):
                    await refused(store, "two")

    asyncio.run(run())


def test_a_prefix_with_objects_of_nobody_is_not_taken(open_store: OpenStore) -> None:
    async def run() -> None:
        async with open_store() as store:
            await store.put("00/1-a", [b"1"])
            with pytest.raises(ForeignClusterError, match="choose an empty prefix"):
                await write_identity(store, "one")
            for text in (b"{" * 128, b'{"format": 1}'.ljust(128), b"[]".ljust(128)):
                await store.put(IDENTITY_KEY, [text])
                with pytest.raises(DamagedError):
                    await read_identity(store)
            await store.put(IDENTITY_KEY, [b'{"format": 2, "cluster_id": "one"}'.ljust(128)])
            with pytest.raises(StorageError, match="format 2"):
                await read_identity(store)

    asyncio.run(run())
