"""The table of served APIs: what is not here is not advertised."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ottla.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.broker.requests.request import MAX_ELEMENTS, MAX_ELEMENTS_IN_SLICES, Api
from ottla.broker.requests.request_pieces import Divisions, large_handler
from ottla.wire.declare import info_of

_HANDLERS = (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
# librdkafka takes a broker that does not advertise Produce v0 for one without any Produce (KAFKA-18659).
_ADVERTISED_FROM = {"Produce": 0}


def _api(module: ModuleType) -> Api:
    request: type[Any] = module.REQUEST
    divisions: Divisions | None = getattr(module, "DIVISIONS", None)
    info = info_of(request)
    name = info.name.removesuffix("Request")
    return Api(
        name,
        info.api_key,
        request,
        _ADVERTISED_FROM.get(name, info.versions.first),
        info.versions.first,
        info.versions.last,
        info.flexible_since,
        module.handle,
        getattr(
            module, "MAX_ELEMENTS", MAX_ELEMENTS if divisions is None else MAX_ELEMENTS_IN_SLICES
        ),
        divisions,
        None if divisions is None else large_handler(module.handle, divisions),
    )


SERVED = {api.key: api for api in sorted(map(_api, _HANDLERS), key=lambda api: api.key)}
