"""The tests of transactions of other clients, with nodes that are processes; not those that move the broker's clock."""

from __future__ import annotations

from tests.clients.test_copying import (
    copier,
    test_a_copier_that_was_replaced_commits_neither_output_nor_offsets,
    test_output_and_offsets_are_aborted_together,
    test_output_and_offsets_are_committed_together,
)
from tests.clients.test_transactions import (
    client,
    test_a_second_instance_fences_the_first_and_ends_its_transaction,
    test_a_transaction_without_records_can_be_committed_and_aborted,
    test_an_open_transaction_holds_committed_readers_back_and_others_not,
    test_committed_records_are_seen_and_aborted_ones_are_not,
)

__all__ = [
    "client",
    "copier",
    "test_a_copier_that_was_replaced_commits_neither_output_nor_offsets",
    "test_a_second_instance_fences_the_first_and_ends_its_transaction",
    "test_a_transaction_without_records_can_be_committed_and_aborted",
    "test_an_open_transaction_holds_committed_readers_back_and_others_not",
    "test_committed_records_are_seen_and_aborted_ones_are_not",
    "test_output_and_offsets_are_aborted_together",
    "test_output_and_offsets_are_committed_together",
]
