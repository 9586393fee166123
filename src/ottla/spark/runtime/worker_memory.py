"""Spares Spark's Python processes the search for garbage among what they have loaded.

Spark's daemon calls `gc.collect()` after every task and every call of the driver. It looks at each object of every
module that is loaded, which took 60 % of the processor time of the Python workers of a pipeline.
"""

from __future__ import annotations

import gc

_is_frozen = False


def freeze_what_is_loaded() -> None:
    """Leave out of later collections what there is at the end of a process's first task: modules, which stay anyway."""
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.freeze()
