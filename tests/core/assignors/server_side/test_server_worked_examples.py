from __future__ import annotations

import pytest
from tests.core.assignors.server_side.worked_examples import EXAMPLES, WorkedExample

from ottla.core.assignors.server_side.registry import SERVER_ASSIGNORS


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.rule for each in EXAMPLES])
def test_the_rule(example: WorkedExample) -> None:
    assignor = SERVER_ASSIGNORS[example.assignor]
    assert assignor.assign(example.members, example.partition_counts) == dict(example.targets)


def test_uniform_is_the_one_of_groups_that_name_none() -> None:
    assert list(SERVER_ASSIGNORS) == ["uniform", "range"]
