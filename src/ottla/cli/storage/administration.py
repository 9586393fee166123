"""`ottla storage init` and `upgrade`."""

from __future__ import annotations

import asyncio

from ottla.cli.commands.syntax import Arguments
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import say
from ottla.errors import ConfigError
from ottla.storage.shared.storage_urls import StorageUrls, read_urls


def urls_of(arguments: Arguments) -> StorageUrls:
    """The URLs of the command line or of the environment."""
    urls = read_urls(arguments.storage, arguments.objects)
    if urls is None:
        raise ConfigError("no storage is given: --storage postgresql://user@host/database")
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
