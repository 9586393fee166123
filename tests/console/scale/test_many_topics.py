"""10,000 topics: the first view in a second of server time, and one poller however many browsers look."""

from __future__ import annotations

import pytest
from tests.console.scale.many_topics import measure

TOPICS = 10_000
PARTITIONS = 3
SECONDS = 15.0


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_ten_thousand_topics_cost_little() -> None:
    """Shares are of one processor; computing time and not waiting time, since the machine may have other work."""
    found = measure(TOPICS, PARTITIONS, SECONDS)
    print(found)
    nobody, one, twenty = found.looking
    assert found.first_view_console_s < 1, found
    assert max(found.answers_cpu_ms.values()) < 250, found
    assert found.console_mb < 300, found
    assert nobody.console_share < 0.05, found
    assert nobody.broker_share - found.broker_share_alone < 0.05, found
    assert one.broker_share - found.broker_share_alone < 0.15, found
    assert twenty.console_share < 0.5, found
    # As many browsers as there may be: the cluster is asked by one.
    assert twenty.snapshots >= 20, found
    assert one.requests_per_second < 15, found
    assert twenty.requests_per_second < 15, found
