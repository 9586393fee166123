"""The blocking admin client: calls of the asyncio one, which runs on a loop thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from ottla.client.aio.admin.client import Admin as AsyncAdmin
from ottla.client.blocking.calls import waiting
from ottla.client.blocking.face import BlockingFace
from ottla.config.admin import AdminConfig
from ottla.config.client import read_client_config

if TYPE_CHECKING:
    from ottla.config.option_types import AdminOptions


class Admin(BlockingFace[AsyncAdmin]):
    """Administers a cluster: topics, configs, groups, offsets, transactions, records, ACLs, users, quotas.

        with ottla.Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=3)])

    A call about several topics, groups … returns a dict with an entry for each. If it fails for some of them, it raises
    PartialFailureError with `results` and `errors` by topic, group …; a call about a single one raises its error. Calls
    are retried until `default.api.timeout.ms` or `timeout` seconds are over. Threads may share it.
    """

    def __init__(
        self,
        config: Mapping[str, object] | AdminConfig | None = None,
        /,
        **options: Unpack[AdminOptions],
    ) -> None:
        settings = read_client_config(AdminConfig, config, options)
        super().__init__(
            f"admin client {settings.client_id}", lambda: AsyncAdmin(settings), AsyncAdmin.close
        )

    # Topics and partitions
    create_topics = waiting(AsyncAdmin.create_topics)
    delete_topics = waiting(AsyncAdmin.delete_topics)
    list_topics = waiting(AsyncAdmin.list_topics)
    describe_topics = waiting(AsyncAdmin.describe_topics)
    describe_all_topics = waiting(AsyncAdmin.describe_all_topics)
    create_partitions = waiting(AsyncAdmin.create_partitions)
    elect_leaders = waiting(AsyncAdmin.elect_leaders)
    list_partition_reassignments = waiting(AsyncAdmin.list_partition_reassignments)
    alter_partition_reassignments = waiting(AsyncAdmin.alter_partition_reassignments)
    # Configs
    list_config_resources = waiting(AsyncAdmin.list_config_resources)
    describe_configs = waiting(AsyncAdmin.describe_configs)
    alter_configs = waiting(AsyncAdmin.alter_configs)
    incremental_alter_configs = waiting(AsyncAdmin.incremental_alter_configs)
    # Groups and their offsets
    list_groups = waiting(AsyncAdmin.list_groups)
    list_consumer_groups = waiting(AsyncAdmin.list_consumer_groups)
    describe_groups = waiting(AsyncAdmin.describe_groups)
    describe_consumer_groups = waiting(AsyncAdmin.describe_consumer_groups)
    delete_consumer_groups = waiting(AsyncAdmin.delete_consumer_groups)
    remove_members_from_consumer_group = waiting(AsyncAdmin.remove_members_from_consumer_group)
    list_consumer_group_offsets = waiting(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = waiting(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = waiting(AsyncAdmin.delete_consumer_group_offsets)
    # Records of partitions
    list_offsets = waiting(AsyncAdmin.list_offsets)
    offsets_for_leader_epochs = waiting(AsyncAdmin.offsets_for_leader_epochs)
    delete_records = waiting(AsyncAdmin.delete_records)
    # Transactions and producers
    list_transactions = waiting(AsyncAdmin.list_transactions)
    describe_transactions = waiting(AsyncAdmin.describe_transactions)
    abort_transaction = waiting(AsyncAdmin.abort_transaction)
    describe_producers = waiting(AsyncAdmin.describe_producers)
    fence_producers = waiting(AsyncAdmin.fence_producers)
    # The cluster
    describe_cluster = waiting(AsyncAdmin.describe_cluster)
    describe_log_dirs = waiting(AsyncAdmin.describe_log_dirs)
    describe_features = waiting(AsyncAdmin.describe_features)
    describe_api_versions = waiting(AsyncAdmin.describe_api_versions)
    update_features = waiting(AsyncAdmin.update_features)
    describe_metadata_quorum = waiting(AsyncAdmin.describe_metadata_quorum)
    unregister_broker = waiting(AsyncAdmin.unregister_broker)
    # Security
    create_acls = waiting(AsyncAdmin.create_acls)
    describe_acls = waiting(AsyncAdmin.describe_acls)
    delete_acls = waiting(AsyncAdmin.delete_acls)
    alter_user_scram_credentials = waiting(AsyncAdmin.alter_user_scram_credentials)
    describe_user_scram_credentials = waiting(AsyncAdmin.describe_user_scram_credentials)
    alter_client_quotas = waiting(AsyncAdmin.alter_client_quotas)
    describe_client_quotas = waiting(AsyncAdmin.describe_client_quotas)

    def metrics(self) -> dict[str, float]:
        """Counts, rates and latencies of the requests of each API, such as `request-total{api=Metadata}`."""
        return self._client.metrics()

    def close(self, timeout: float | None = None) -> None:
        """Close all connections; calls that are under way fail. A second close does nothing."""
        self._thread.close(self._client.close, timeout)
