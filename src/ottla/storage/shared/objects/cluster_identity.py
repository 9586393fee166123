"""Which cluster the objects below a prefix belong to: an object that every broker reads when it starts.

Without it a broker with a wrong prefix would find none of its objects, and a collection could remove those of another
cluster. The identity is written once, when the storage is made.
"""

from __future__ import annotations

import json
from typing import Final

from ottla.ports import DamagedError, StorageError
from ottla.storage.shared.errors import ForeignClusterError, ObjectMissingError
from ottla.storage.shared.objects.objects import Objects

IDENTITY_KEY: Final = "cluster.json"
FORMAT: Final = 1
# Our own identity has always the same size, so that one request reads it.
_SIZE_BYTES: Final = 128


async def write_identity(objects: Objects, cluster_id: str) -> None:
    """Makes the prefix that of the cluster; nothing happens if it already is.

    ForeignClusterError if it is that of another one, or if it has objects and no identity. When two clusters do this at
    the same time, the one that writes last keeps the prefix; the other is refused here, or by its next start.
    """
    found = await read_identity(objects)
    if found is None:
        async for listed in objects.list(""):
            raise ForeignClusterError(
                f"there are objects ({listed.key}) and no {IDENTITY_KEY}: choose an empty prefix"
            )
        text = json.dumps({"format": FORMAT, "cluster_id": cluster_id})
        await objects.put(IDENTITY_KEY, [text.ljust(_SIZE_BYTES - 1).encode() + b"\n"])
    await check_identity(objects, cluster_id)


async def check_identity(objects: Objects, cluster_id: str) -> None:
    """Raises ForeignClusterError if the objects are not those of this cluster."""
    found = await read_identity(objects)
    if found is None:
        raise StorageError(
            f"the objects have no {IDENTITY_KEY}: the bucket or prefix is not that of cluster"
            f" {cluster_id}, or `ottla storage init` has not been run"
        )
    if found != cluster_id:
        raise ForeignClusterError(
            f"the objects belong to cluster {found}, not to {cluster_id}: bucket or prefix is wrong"
        )


async def read_identity(objects: Objects) -> str | None:
    """The id of the cluster that the objects belong to, None if nothing says it."""
    try:
        (data,) = await objects.get_ranges(IDENTITY_KEY, [(0, _SIZE_BYTES)])
    except ObjectMissingError:
        return None
    try:
        found = json.loads(bytes(data))
    except ValueError as error:
        raise DamagedError(f"{IDENTITY_KEY} among the objects is not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("cluster_id"), str):
        raise DamagedError(f"{IDENTITY_KEY} among the objects names no cluster")
    if found.get("format") != FORMAT:
        raise StorageError(
            f"{IDENTITY_KEY} among the objects has format {found.get('format')}, not {FORMAT}"
        )
    return str(found["cluster_id"])
