"""The storage of a cluster by its URLs: opening it as a broker, and making, upgrading and looking at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ottla.errors import ConfigError
from ottla.ports import Clock, StorageError
from ottla.ports.errors import InUseError
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.storage_check import StorageCheck
from ottla.storage.shared.storage_urls import StorageUrls
from ottla.storage.shared.store import SharedStore

# Longer than a lease lasts.
LEASE_WAIT_SECONDS: Final = 6.0
LEASE_CHECK_SECONDS: Final = 0.2


async def open_as_broker(
    urls: StorageUrls, name: str, node_id: int | None, rack: str | None, clock: Clock
) -> SharedStore:
    """Begins a session; an error of one line says what is wrong with the storage, and nothing was changed then."""
    check_packages(urls)
    from ottla.storage.shared.open_store import open_shared_store
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
    from ottla.storage.shared.sequencer.postgres.postgres_sequencer import open_postgres_sequencer

    sequencer = await open_postgres_sequencer(parse_database_url(urls.storage))
    objects = None
    try:
        objects = open_objects(urls)
        await check_objects(urls, objects, sequencer.cluster_id)
        broker = BrokerDescription(
            name=name, node_id=node_id, endpoints={}, advertised={}, peer="", rack=rack
        )
        # A broker that was killed has its lease for some seconds yet; one that runs renews it.
        deadline = asyncio.get_running_loop().time() + LEASE_WAIT_SECONDS
        while True:
            try:
                return await open_shared_store(sequencer, objects, broker, clock)
            except InUseError:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
            await asyncio.sleep(LEASE_CHECK_SECONDS)
    except BaseException:
        if objects is not None:
            await objects.close()
        await sequencer.close()
        raise


def described(urls: StorageUrls) -> str:
    """The URLs without secrets."""
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

    database = str(parse_database_url(urls.storage))
    if urls.objects is None:
        return database
    from ottla.storage.shared.objects.s3_options import parse_s3_url

    bucket = parse_s3_url(urls.objects)
    return f"{database} and s3://{bucket.bucket}/{bucket.prefix}".removesuffix("/")


def open_objects(urls: StorageUrls) -> Objects:
    """Where large data is: a bucket, or tables of the database."""
    if urls.objects is not None:
        from ottla.storage.shared.objects.s3 import S3Objects
        from ottla.storage.shared.objects.s3_options import parse_s3_url

        return S3Objects(parse_s3_url(urls.objects))
    from ottla.storage.shared.objects.postgres_chunks import PostgresChunks
    from ottla.storage.shared.sequencer.postgres.connections import Database
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

    url = parse_database_url(urls.storage)
    return PostgresChunks(Database(url).connect, url.schema)


async def check_objects(urls: StorageUrls, objects: Objects, cluster_id: str) -> None:
    """Raises StorageError unless these are the objects of the cluster."""
    from ottla.storage.shared.objects.cluster_identity import check_identity, read_identity

    if await read_identity(objects) is None:
        if urls.objects is None:
            raise StorageError(
                f"the storage of cluster {cluster_id} was made with a bucket: name it with --objects s3://…"
            )
        inside = open_objects(StorageUrls(urls.storage))
        try:
            if await read_identity(inside) == cluster_id:
                raise StorageError(
                    f"the storage of cluster {cluster_id} was made without a bucket: leave out --objects"
                )
        finally:
            await inside.close()
    await check_identity(objects, cluster_id)


def check_packages(urls: StorageUrls) -> None:
    """ConfigError with what to install."""
    for module in ["asyncpg", *(["obstore"] if urls.objects is not None else [])]:
        try:
            __import__(module)
        except ImportError as error:
            raise ConfigError(
                f"a shared storage needs the package {module}: pip install 'ottla[shared]'"
            ) from error


async def init_storage(urls: StorageUrls, broker_role: str | None) -> str:
    """Makes the storage of a new cluster; returns its id."""
    check_packages(urls)
    from ottla.storage.shared.objects.cluster_identity import read_identity, write_identity
    from ottla.storage.shared.sequencer.postgres import schema
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

    url = parse_database_url(urls.storage)
    if urls.objects is not None:
        # A bucket that cannot be used is noticed before the database is changed.
        bucket = open_objects(urls)
        try:
            found = await read_identity(bucket)
        finally:
            await bucket.close()
        if found is not None:
            raise ConfigError(f"the objects there belong to cluster {found} already")
    state = await schema.init(url, broker_role=broker_role)
    objects = open_objects(urls)
    try:
        await write_identity(objects, state.cluster_id)
    finally:
        await objects.close()
    return state.cluster_id


async def upgrade_storage(urls: StorageUrls, broker_role: str | None) -> tuple[int, int]:
    """Brings the tables to this version; returns the version before, and this one."""
    check_packages(urls)
    from ottla.storage.shared.sequencer.postgres import schema
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url

    before = await schema.upgrade(parse_database_url(urls.storage), broker_role)
    return before, schema.VERSION


@asynccontextmanager
async def open_check(urls: StorageUrls) -> AsyncIterator[StorageCheck]:
    """A check of the storage, which begins no session: brokers may be running."""
    check_packages(urls)
    from ottla.storage.shared.sequencer.postgres.database_url import parse_database_url
    from ottla.storage.shared.sequencer.postgres.postgres_sequencer import open_postgres_sequencer

    sequencer = await open_postgres_sequencer(parse_database_url(urls.storage))
    try:
        objects = open_objects(urls)
        try:
            await check_objects(urls, objects, sequencer.cluster_id)
            yield StorageCheck(sequencer, objects, sequencer.cluster_id)
        finally:
            await objects.close()
    finally:
        await sequencer.close()
