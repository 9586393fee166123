"""`ottla storage init`, `upgrade`, `check` and `import`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.terminal.output import say
from ottla.cli.terminal.progress import Terminal
from ottla.errors import ConfigError
from ottla.storage.shared.storage_urls import (
    StorageUrls,
    read_urls,
    variables_of_shown_secrets,
)

if TYPE_CHECKING:
    from ottla.storage.transfer.folder_import import ImportCounts

_SHOW_SECONDS: Final = 0.2


def urls_of(arguments: Arguments) -> StorageUrls:
    """The URLs of the command line or of the environment."""
    urls = read_urls(arguments.storage, arguments.objects)
    if urls is None:
        raise ConfigError("no storage is given: --storage postgresql://user@host/database")
    shown = variables_of_shown_secrets(arguments.storage, arguments.objects)
    for flag, variable in shown.items():
        say(
            f"warning: the URL of {flag} has a secret, and is on the command line, where others on this machine can see"
            f" it: write it into a file that only this user can read, and give {flag} @FILE, or set {variable}"
        )
    return urls


def init(arguments: Arguments) -> int:
    """Make the storage of a new cluster."""
    from ottla.storage.shared.cluster_storage import init_storage

    urls = urls_of(arguments)
    cluster_id = asyncio.run(init_storage(urls, arguments.broker_role))
    where = "in the database" if urls.objects is None else "in the database and the bucket"
    say(f"made the storage of cluster {cluster_id} {where}")
    return DONE


def upgrade(arguments: Arguments) -> int:
    """Bring a storage to the version of this Ottla."""
    from ottla.storage.shared.cluster_storage import upgrade_storage

    before, now = asyncio.run(upgrade_storage(urls_of(arguments), arguments.broker_role))
    if before == now:
        say(f"the storage has version {now} already")
    else:
        say(f"upgraded the storage from version {before} to {now}")
    return DONE


def check(arguments: Arguments) -> int:
    """Compare the objects in the store with those that the sequencer knows."""
    return asyncio.run(_check(urls_of(arguments), is_read=arguments.read))


async def _check(urls: StorageUrls, is_read: bool) -> int:
    from ottla.storage.shared.cluster_storage import open_check

    async with open_check(urls) as found:
        differences = 0
        async for each in found.compare():
            differences += 1
            print(f"{each.difference.name.lower():8} {each.key}: {each.detail}")
        if is_read:
            async for each in found.verify():
                differences += 1
                print(f"{each.difference.name.lower():8} {each.key}: {each.detail}")
        counts = found.counts
    states = ", ".join(f"{count:,} {state.value}" for state, count in counts.objects.items())
    print(
        f"{sum(counts.objects.values()):,} objects: {states}; {counts.live_bytes:,} bytes are in use"
    )
    if is_read:
        print(f"{counts.verified_bytes:,} bytes were read")
    print(f"{differences:,} differences" if differences else "no differences")
    return FAILED if differences else DONE


def import_data(arguments: Arguments) -> int:
    """Copy a data folder into a new storage."""
    urls = urls_of(arguments)
    counts = asyncio.run(_import(arguments.folder, urls))
    say(
        f"imported {counts.topics:,} topics with {counts.partitions:,} partitions;"
        f" {counts.bytes_copied:,} bytes were copied by this run"
    )
    return DONE


async def _import(folder: str, urls: StorageUrls) -> ImportCounts:
    from ottla.broker.clock import SystemClock
    from ottla.storage.shared.cluster_storage import check_packages

    check_packages(urls)
    from ottla.storage.transfer.folder_import import ImportCounts, import_folder

    counts = ImportCounts()
    working = asyncio.ensure_future(import_folder(folder, urls, SystemClock(), counts))
    terminal = Terminal()
    try:
        while not working.done():
            await asyncio.wait([working], timeout=_SHOW_SECONDS)
            if not counts.partitions:
                continue
            terminal.show(
                f"{counts.partitions_done:,} of {counts.partitions:,} partitions,"
                f" {counts.bytes_copied / 1e6:,.0f} MB"
            )
    finally:
        terminal.done()
        working.cancel()
    return await working
