"""System calls that fail for some files of one broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.storage.conftest import patch_in

from ottla.broker.embedded import Broker
from ottla.storage.local.sync import group_commit

# The engine takes fdatasync where the system has it.
_OWNERS = {"fdatasync": (group_commit, "_sync_data")}


def fail_calls(
    patch: pytest.MonkeyPatch, broker: Broker, topic: str, number: int, *calls: str
) -> None:
    """Makes system calls fail with an error for the partitions of a topic, at this broker and no other."""
    folder = Path(broker.data_dir)
    for call in calls:
        owner, name = _OWNERS.get(call, (os, call))
        real = getattr(owner, name)

        def fail(target: Any, *arguments: Any, real: Any = real, **options: Any) -> Any:
            if _partition_folder(folder, target).startswith(f"{topic}-"):
                raise OSError(number, os.strerror(number))
            return real(target, *arguments, **options)

        patch_in(folder, patch, owner, name, fail)


def _partition_folder(folder: Path, target: Any) -> str:
    path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
    return Path(path).relative_to(folder).parts[0] if Path(path) != folder else ""
