"""The group coordinator's assignors by their names."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.assignors.server_side.model import ServerAssignor
from ottla.core.assignors.server_side.ranges import ServerRangeAssignor
from ottla.core.assignors.server_side.uniform import UniformAssignor

_ASSIGNORS: tuple[ServerAssignor, ...] = (UniformAssignor(), ServerRangeAssignor())

SERVER_ASSIGNORS: Mapping[str, ServerAssignor] = {each.name: each for each in _ASSIGNORS}
"""The first is the one of groups whose members name none."""
