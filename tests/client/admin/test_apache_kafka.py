"""The essential tests of the admin client, against Apache Kafka."""

from __future__ import annotations

import traceback

from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.client.admin import (
    test_acls,
    test_cluster,
    test_configs,
    test_groups,
    test_offsets,
    test_quotas,
    test_topics,
    test_transactions,
    test_users,
)
from tests.client.admin.stage import ESSENTIAL, Stage

from ottla.client.blocking.admin import Admin
from ottla.client.raw import RawConnection

__all__ = ["kafka_address", "kafka_jars"]

MODULES = (
    test_acls,
    test_cluster,
    test_configs,
    test_groups,
    test_offsets,
    test_quotas,
    test_topics,
    test_transactions,
    test_users,
)

PATIENCE_SECONDS = 10.0


def test_apache_kafka_passes_the_same_tests(kafka_address: str) -> None:
    assert {test.__module__ for test in ESSENTIAL} == {module.__name__ for module in MODULES}
    failed: dict[str, list[str]] = {}
    with (
        Admin(bootstrap_servers=kafka_address) as admin,
        RawConnection(kafka_address) as connection,
    ):
        for test in ESSENTIAL:
            try:
                test(Stage(admin, connection, test.__name__[:60], PATIENCE_SECONDS))
            except Exception:
                failed[test.__name__] = traceback.format_exc().splitlines()
    assert not failed, "\n".join(line for lines in failed.values() for line in lines)
