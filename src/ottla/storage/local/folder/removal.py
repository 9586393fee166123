"""Deleting files and folders, on the threads that wait for the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence

from ottla.events import EventLog

logger = EventLog(__name__)


def remove_files(paths: Sequence[str]) -> None:
    """Deletes files; a failure is logged."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass  # the whole partition was deleted meanwhile
        except OSError as error:
            _log_failure(path, error)


def remove_tree(path: str) -> None:
    """Deletes a folder and its content."""
    try:
        shutil.rmtree(path)
    except OSError as error:
        _log_failure(path, error)


def remove_trees(paths: Iterable[str]) -> None:
    """Deletes folders, one after the other."""
    for path in paths:
        remove_tree(path)


def _log_failure(path: str, error: OSError) -> None:
    text = "cannot remove %(path)s: %(reason)s"
    logger.warning("file_not_removed", text, path=path, reason=str(error))
