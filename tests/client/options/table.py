"""For every option that a client takes, the test which shows that somebody obeys it."""

from __future__ import annotations

SHARED_PROBES = "tests/client/options/test_shared_options.py"
CODE_PROBES = "tests/client/options/test_code_options.py"
CONSUMER_PROBES = "tests/client/options/test_consumer_options.py"
ADMIN_PROBES = "tests/client/options/test_admin_options.py"
CONFIG = "tests/client/config"
NETWORK = "tests/client/network"
TLS = "tests/client/security/test_tls.py"
SASL = "tests/client/security/test_authentication.py"
SENDING = "tests/client/producer/test_sending.py"
PRODUCING = "tests/client/producer/test_options.py"
FAULTS = "tests/client/producer/test_faults.py"
TRANSACTIONS = "tests/client/producer/test_transactional.py"
FETCHING = "tests/client/consumer/test_fetching.py"
FETCH_ERRORS = "tests/client/consumer/test_fetch_errors.py"
POSITIONS = "tests/client/consumer/test_positions.py"
USER_CODE = "tests/client/consumer/test_user_code.py"
HEALTH = "tests/client/consumer/test_health.py"
KIP_848 = "tests/client/groups/test_consumer_protocol.py"

_TLS_VERSION = f"{SHARED_PROBES}::test_the_version_of_tls_is_that_of_the_options"
_CLIENT_CERTIFICATE = f"{TLS}::test_a_broker_can_want_a_certificate_of_the_client"
_PKCS12 = f"{TLS}::test_stores_can_be_pkcs12"
_JAVA_STORES = (
    f"{CONFIG}/test_security_config.py"
    "::test_a_java_store_is_refused_with_the_command_that_converts_it"
)
_CREDENTIALS = f"{SHARED_PROBES}::test_who_the_client_is_comes_from_two_options_or_from_jaas"
_RECONNECT = f"{SHARED_PROBES}::test_attempts_to_connect_pause_from_reconnect_backoff_ms_to_its_max"
_RETRY = f"{SHARED_PROBES}::test_requests_are_repeated_with_pauses_from_retry_backoff_ms_to_its_max"
_SETUP = f"{SHARED_PROBES}::test_attempts_to_connect_last_from_the_setup_timeout_to_its_max"
_BUFFERS = f"{SHARED_PROBES}::test_sockets_have_the_buffers_that_are_asked_for"
_STARTING_AGAIN = f"{NETWORK}/test_network.py::TestStartingAgain"
_WRITTEN_TEXT = f"{CODE_PROBES}::test_text_is_written_in_the_encoding_of_the_option"
_READ_TEXT = f"{CODE_PROBES}::test_text_is_read_in_the_encoding_of_the_option"
_SERIALIZERS = f"{CODE_PROBES}::test_serializers_are_those_of_key_serializer_and_value_serializer"
_DESERIALIZERS = (
    f"{CODE_PROBES}::test_deserializers_are_those_of_key_deserializer_and_value_deserializer"
)
_LISTS = (
    f"{CODE_PROBES}::test_items_of_lists_are_written_and_read_by_the_inner_serde_of_key_and_value"
)
_FETCH_BYTES = f"{CONSUMER_PROBES}::test_a_fetch_brings_at_most_so_many_bytes"
_FETCH_WAIT = f"{CONSUMER_PROBES}::test_a_broker_gathers_fetch_min_bytes_for_fetch_max_wait_ms"

SHARED: dict[str, str] = {
    "bootstrap.servers": f"{SHARED_PROBES}::test_bootstrap_servers_are_asked_until_one_answers",
    "client.dns.lookup": f"{SHARED_PROBES}"
    "::test_bootstrap_servers_are_known_by_their_canonical_names_if_client_dns_lookup_says_so",
    "client.id": f"{SHARED_PROBES}::test_client_id_is_in_every_request",
    "connections.max.idle.ms": f"{SHARED_PROBES}"
    "::test_an_idle_connection_is_closed_after_connections_max_idle_ms",
    "enable.metrics.push": f"{CONFIG}/test_client_config.py::test_metrics_push_can_only_be_off",
    "metadata.max.age.ms": f"{SHARED_PROBES}"
    "::test_metadata_is_asked_for_again_after_metadata_max_age_ms",
    "metadata.recovery.rebootstrap.trigger.ms": f"{_STARTING_AGAIN}"
    "::test_brokers_that_connect_but_give_no_metadata_are_given_up_after_a_while",
    "metadata.recovery.strategy": f"{_STARTING_AGAIN}"
    "::test_without_it_only_known_brokers_are_asked",
    "receive.buffer.bytes": _BUFFERS,
    "reconnect.backoff.max.ms": _RECONNECT,
    "reconnect.backoff.ms": _RECONNECT,
    "request.timeout.ms": f"{ADMIN_PROBES}"
    "::test_a_request_without_an_answer_is_sent_again_after_request_timeout_ms",
    "retry.backoff.max.ms": _RETRY,
    "retry.backoff.ms": _RETRY,
    "send.buffer.bytes": _BUFFERS,
    "socket.connection.setup.timeout.max.ms": _SETUP,
    "socket.connection.setup.timeout.ms": _SETUP,
    "security.protocol": f"{SASL}::test_sasl_through_tls",
    "sasl.mechanism": f"{SASL}::test_a_client_that_says_who_it_is_is_served",
    "sasl.jaas.config": _CREDENTIALS,
    "sasl.username": _CREDENTIALS,
    "sasl.password": _CREDENTIALS,
    "sasl.login.callback.handler.class": f"{SASL}"
    "::test_a_token_that_the_broker_does_not_accept_is_fatal",
    "ssl.protocol": _TLS_VERSION,
    "ssl.enabled.protocols": _TLS_VERSION,
    "ssl.cipher.suites": f"{TLS}::test_cipher_suites_can_be_chosen_by_their_names_in_java",
    "ssl.endpoint.identification.algorithm": f"{TLS}"
    "::test_a_certificate_of_another_host_is_not_accepted_unless_that_is_turned_off",
    "ssl.truststore.type": _JAVA_STORES,
    "ssl.truststore.location": f"{TLS}::test_a_broker_that_nobody_vouches_for_is_not_talked_to",
    "ssl.truststore.certificates": f"{TLS}::test_the_trust_store_can_be_text_without_line_breaks",
    "ssl.keystore.type": _JAVA_STORES,
    "ssl.keystore.location": _CLIENT_CERTIFICATE,
    "ssl.keystore.key": _CLIENT_CERTIFICATE,
    "ssl.keystore.certificate.chain": _CLIENT_CERTIFICATE,
    "ssl.keystore.password": _PKCS12,
    "ssl.truststore.password": _PKCS12,
    "ssl.key.password": _CLIENT_CERTIFICATE,
}

PRODUCER: dict[str, str] = {
    "acks": f"{PRODUCING}::test_acks",
    "batch.size": f"{PRODUCING}::test_batch_size_bounds_batches",
    "buffer.memory": f"{PRODUCING}::test_full_memory_blocks_for_max_block_ms",
    "compression.gzip.level": f"{PRODUCING}::test_compression_levels",
    "compression.lz4.level": f"{PRODUCING}::test_compression_levels",
    "compression.type": f"{SENDING}::test_strangers_can_read_every_codec",
    "compression.zstd.level": f"{PRODUCING}::test_compression_levels",
    "default.list.key.serde.inner": _LISTS,
    "default.list.value.serde.inner": _LISTS,
    "delivery.timeout.ms": f"{FAULTS}::test_delivery_timeout_fails_records_that_were_never_sent",
    "enable.idempotence": f"{PRODUCING}::test_idempotence_numbers_batches",
    "interceptor.classes": f"{SENDING}::test_interceptors_see_records_and_outcomes_in_order",
    "key.serializer": _SERIALIZERS,
    "key.serializer.encoding": _WRITTEN_TEXT,
    "linger.ms": f"{PRODUCING}::test_linger_holds_a_batch_back",
    "max.block.ms": f"{PRODUCING}::test_full_memory_blocks_for_max_block_ms",
    "max.in.flight.requests.per.connection": f"{PRODUCING}::test_requests_in_flight_are_bounded",
    "max.request.size": f"{PRODUCING}::test_max_request_size_bounds_records_and_requests",
    "metadata.max.idle.ms": f"{PRODUCING}::test_topics_that_are_not_used_are_forgotten",
    "partitioner.adaptive.partitioning.enable": f"{PRODUCING}"
    "::test_records_without_a_key_prefer_partitions_with_short_queues",
    "partitioner.availability.timeout.ms": f"{PRODUCING}"
    "::test_records_without_a_key_avoid_brokers_that_take_nothing",
    "partitioner.class": f"{SENDING}::test_partitioners_get_the_clusters_metadata",
    "partitioner.ignore.keys": f"{PRODUCING}::test_keys_can_be_ignored",
    "retries": f"{FAULTS}::test_retries_are_counted",
    "serializer.encoding": _WRITTEN_TEXT,
    "transaction.timeout.ms": f"{TRANSACTIONS}"
    "::test_timeout_of_transactions_is_told_to_the_coordinator",
    "transaction.two.phase.commit.enable": f"{CONFIG}/test_producer_config.py"
    "::test_two_phase_commit_is_not_available",
    "transactional.id": f"{CONSUMER_PROBES}::test_aborted_records_are_seen_as_isolation_level_says",
    "value.serializer": _SERIALIZERS,
    "value.serializer.encoding": _WRITTEN_TEXT,
}

CONSUMER: dict[str, str] = {
    "allow.auto.create.topics": f"{CONSUMER_PROBES}"
    "::test_a_subscription_creates_its_topic_only_with_allow_auto_create_topics",
    "auto.commit.interval.ms": f"{CONSUMER_PROBES}"
    "::test_offsets_are_committed_every_auto_commit_interval_ms",
    "auto.offset.reset": f"{POSITIONS}"
    "::test_without_a_committed_offset_reading_starts_where_auto_offset_reset_says",
    "check.crcs": f"{FETCH_ERRORS}::test_corrupt_records_stop_the_partition_until_somebody_seeks",
    "client.rack": f"{FETCHING}::test_fetches_say_what_the_options_say",
    "default.api.timeout.ms": f"{POSITIONS}"
    "::test_default_api_timeout_limits_calls_without_a_timeout",
    "default.list.key.serde.inner": _LISTS,
    "default.list.key.serde.type": _LISTS,
    "default.list.value.serde.inner": _LISTS,
    "default.list.value.serde.type": _LISTS,
    "deserializer.encoding": _READ_TEXT,
    "enable.auto.commit": f"{CONSUMER_PROBES}::test_close_commits_if_enable_auto_commit_says_so",
    "exclude.internal.topics": f"{CONSUMER_PROBES}"
    "::test_a_pattern_takes_internal_topics_unless_exclude_internal_topics",
    "fetch.max.bytes": _FETCH_BYTES,
    "fetch.max.wait.ms": _FETCH_WAIT,
    "fetch.min.bytes": _FETCH_WAIT,
    "group.id": f"{CONSUMER_PROBES}::test_offsets_and_partitions_belong_to_group_id",
    "group.instance.id": f"{CONSUMER_PROBES}"
    "::test_a_static_member_says_its_group_instance_id_and_stays_when_it_closes",
    "group.protocol": f"{KIP_848}::test_a_member_joins_with_everything_and_then_tells_only_news",
    "group.remote.assignor": f"{KIP_848}"
    "::test_a_member_joins_with_everything_and_then_tells_only_news",
    "heartbeat.interval.ms": f"{CONSUMER_PROBES}::test_heartbeats_come_every_heartbeat_interval_ms",
    "interceptor.classes": f"{USER_CODE}"
    "::test_interceptors_see_records_in_order_and_their_errors_harm_nobody",
    "isolation.level": f"{CONSUMER_PROBES}::test_aborted_records_are_seen_as_isolation_level_says",
    "key.deserializer": _DESERIALIZERS,
    "key.deserializer.encoding": _READ_TEXT,
    "max.partition.fetch.bytes": _FETCH_BYTES,
    "max.poll.interval.ms": f"{CONSUMER_PROBES}"
    "::test_a_consumer_that_does_not_poll_leaves_after_max_poll_interval_ms",
    "max.poll.records": f"{CONSUMER_PROBES}::test_a_poll_returns_at_most_max_poll_records",
    "partition.assignment.strategy": f"{CONSUMER_PROBES}"
    "::test_members_offer_the_assignors_of_partition_assignment_strategy",
    "session.timeout.ms": f"{CONSUMER_PROBES}"
    "::test_a_member_without_heartbeats_is_removed_after_session_timeout_ms",
    "stall.timeout.ms": f"{HEALTH}::test_the_watchdog_can_be_turned_off",
    "value.deserializer": _DESERIALIZERS,
    "value.deserializer.encoding": _READ_TEXT,
}

ADMIN: dict[str, str] = {
    "default.api.timeout.ms": f"{ADMIN_PROBES}"
    "::test_a_call_without_a_timeout_ends_after_default_api_timeout_ms",
    "retries": f"{ADMIN_PROBES}::test_a_call_is_repeated_at_most_retries_times",
}
