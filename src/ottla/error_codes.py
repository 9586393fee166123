"""Kafka's error codes: one table of number, name, what the caller should do, and text."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING


class Action(Enum):
    """What the caller should do about an error."""

    NONE = "nothing: the outcome is as good as success"
    RETRY = "send the same request again after a pause"
    REFRESH_METADATA = "look up the leader, coordinator or topic again, then retry"
    REJOIN = "drop the work in progress and join the group again"
    ABORT = "abort the transaction, or give up the operation; the client stays usable"
    FIX_REQUEST = "change the request, its settings or the permissions: it will fail again as it is"
    FATAL = "close this client: nothing that it sends can succeed any more"


_NONE = Action.NONE
_RETRY = Action.RETRY
_REFRESH = Action.REFRESH_METADATA
_REJOIN = Action.REJOIN
_ABORT = Action.ABORT
_FIX = Action.FIX_REQUEST
_FATAL = Action.FATAL


class ErrorCode(IntEnum):
    """An error code of Kafka's protocol; the rows of the table are below.

    `retriable` is what Kafka's Java client says of the code.
    """

    value: int
    retriable: bool
    action: Action
    text: str

    # Type checkers would take this signature for that of `ErrorCode(number)`.
    if not TYPE_CHECKING:

        def __new__(cls, number: int, retriable: bool, action: Action, text: str) -> ErrorCode:
            return cls._member(number, retriable, action, text)

    @classmethod
    def _member(cls, number: int, retriable: bool, action: Action, text: str) -> ErrorCode:
        member = int.__new__(cls, number)
        member._value_ = number
        member.retriable = retriable
        member.action = action
        member.text = text
        return member

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """Keep the number of a code that is newer than this table."""
        if not isinstance(value, int) or not -(1 << 15) <= value < 1 << 15:
            return None
        reason = f"The server answered with error code {value}, which this version does not know."
        unknown = cls._member(value, False, Action.ABORT, reason)
        unknown._name_ = f"UNKNOWN_ERROR_CODE_{value}"
        return unknown

    # A row is: number, retriable, action, text.
    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, False, _ABORT, "The server failed in a way it did not expect."
    NONE = 0, False, _NONE, "No error."
    OFFSET_OUT_OF_RANGE = 1, False, _FIX, "The offset is outside what the partition holds."
    CORRUPT_MESSAGE = 2, True, _RETRY, "The records fail their checksum or are malformed."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, _REFRESH, "The broker has no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, _FIX, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, _REFRESH, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, _REFRESH, "The broker does not lead this partition."
    REQUEST_TIMED_OUT = 7, True, _RETRY, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, False, _ABORT, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, _REFRESH, "The replica of this partition is not available."
    MESSAGE_TOO_LARGE = 10, False, _FIX, "A record batch is larger than the server accepts."
    STALE_CONTROLLER_EPOCH = 11, False, _ABORT, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, False, _FIX, "The metadata of the committed offset is too long."
    NETWORK_EXCEPTION = 13, True, _REFRESH, "The connection broke before an answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, _RETRY, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, _REFRESH, "The coordinator is not available."
    NOT_COORDINATOR = 16, True, _REFRESH, "The broker is not the coordinator of this id."
    INVALID_TOPIC_EXCEPTION = 17, False, _FIX, "The topic's name is not valid or not allowed here."
    RECORD_LIST_TOO_LARGE = 18, False, _FIX, "The record batches exceed the segment size."
    NOT_ENOUGH_REPLICAS = 19, True, _RETRY, "Fewer replicas are in sync than the topic requires."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, _RETRY, (
        "The records were written, but to fewer in-sync replicas than the topic requires."
    )
    INVALID_REQUIRED_ACKS = 21, False, _FIX, "acks must be 0, 1 or all (-1)."
    ILLEGAL_GENERATION = 22, False, _REJOIN, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, False, _FIX, (
        "The member shares no protocol with the group's members, or named none."
    )
    INVALID_GROUP_ID = 24, False, _FIX, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, _REJOIN, "The coordinator does not know this member."
    INVALID_SESSION_TIMEOUT = 26, False, _FIX, (
        "The session timeout is outside group.min.session.timeout.ms and "
        "group.max.session.timeout.ms of the broker."
    )
    REBALANCE_IN_PROGRESS = 27, False, _REJOIN, "The group is rebalancing; the member must rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, _FIX, "The committed offset data is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, False, _FIX, "Not authorized for this topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, _FIX, "Not authorized for this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, _FATAL, "Not authorized for this cluster."
    INVALID_TIMESTAMP = 32, False, _FIX, "A record's timestamp is outside the accepted range."
    UNSUPPORTED_SASL_MECHANISM = 33, False, _FATAL, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, _FATAL, "The request does not fit the state of authentication."
    UNSUPPORTED_VERSION = 35, False, _FATAL, "The server does not support this version of the API."
    TOPIC_ALREADY_EXISTS = 36, False, _FIX, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, _FIX, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = 38, False, _FIX, (
        "The replication factor is below 1 or above the number of available brokers."
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, _FIX, "The assignment of replicas is not valid."
    INVALID_CONFIG = 40, False, _FIX, "The configuration is not valid."
    NOT_CONTROLLER = 41, True, _REFRESH, "The broker is not the controller of the cluster."
    INVALID_REQUEST = 42, False, _FIX, "The request is malformed or contradicts itself."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, _FATAL, (
        "The broker's message format does not support the request."
    )
    POLICY_VIOLATION = 44, False, _FIX, "The request violates a policy of the server."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, _ABORT, "The sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, _NONE, "The batch was already written."
    INVALID_PRODUCER_EPOCH = 47, False, _ABORT, (
        "The producer's epoch is old: a newer one with its transactional id may have started."
    )
    INVALID_TXN_STATE = 48, False, _FATAL, "The operation does not fit the transaction's state."
    INVALID_PRODUCER_ID_MAPPING = 49, False, _ABORT, (
        "The producer id is not the one assigned to this transactional id."
    )
    INVALID_TRANSACTION_TIMEOUT = 50, False, _FIX, (
        "The transaction timeout is not positive or exceeds transaction.max.timeout.ms."
    )
    CONCURRENT_TRANSACTIONS = 51, True, _RETRY, (
        "Another operation on the same transaction has not finished yet."
    )
    TRANSACTION_COORDINATOR_FENCED = 52, False, _FATAL, (
        "The coordinator that sent the marker is no longer the current one."
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, _FATAL, (
        "Not authorized for this transactional id."
    )
    SECURITY_DISABLED = 54, False, _FIX, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, False, _ABORT, (
        "The server did not try this operation because another one of the request failed."
    )
    KAFKA_STORAGE_ERROR = 56, True, _REFRESH, "The server could not read or write its log."
    LOG_DIR_NOT_FOUND = 57, False, _FIX, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, _FATAL, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, False, _ABORT, (
        "The partition has no state of this producer, perhaps because retention removed it."
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, _ABORT, "A partition reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, _FIX, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, _FIX, "The server does not know the delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, _FIX, "The principal may not renew this token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, _FIX, (
        "Delegation tokens cannot be requested over this kind of connection."
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, _FIX, (
        "Not authorized for this delegation token."
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, _FIX, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, _FIX, "The type of the principal is not supported."
    NON_EMPTY_GROUP = 68, False, _FIX, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, _FIX, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, _RETRY, "The broker does not know this fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, _RETRY, "The epoch of the fetch session is not valid."
    LISTENER_NOT_FOUND = 72, True, _REFRESH, (
        "The leader has no listener that matches the one this request came through."
    )
    TOPIC_DELETION_DISABLED = 73, False, _FIX, "The broker has delete.topic.enable=false."
    FENCED_LEADER_EPOCH = 74, True, _REFRESH, "The leader epoch is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, _RETRY, "The leader epoch is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, _FIX, "This API version lacks the compression type."
    STALE_BROKER_EPOCH = 77, False, _ABORT, "The broker epoch has changed."
    OFFSET_NOT_AVAILABLE = 78, True, _RETRY, "A new leader does not know its high watermark yet."
    MEMBER_ID_REQUIRED = 79, False, _REJOIN, "Join again with the member id that was assigned."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, _REFRESH, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, _FIX, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, _FATAL, (
        "Another consumer with the same group.instance.id has taken this one's place."
    )
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, _REFRESH, "No replica is eligible to lead."
    ELECTION_NOT_NEEDED = 84, True, _REFRESH, "The partition needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, _FIX, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, _FIX, (
        "Offsets cannot be deleted while the group is subscribed to the topic."
    )
    INVALID_RECORD = 87, False, _FIX, "The broker refused a record."
    UNSTABLE_OFFSET_COMMIT = 88, True, _RETRY, "A transaction with these offsets is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, True, _RETRY, "A quota is used up."
    PRODUCER_FENCED = 90, False, _FATAL, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, _FIX, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, False, _FIX, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, _FIX, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, _ABORT, "A sender or receiver is not an expected voter."
    INVALID_UPDATE_VERSION = 95, False, _FIX, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, False, _ABORT, "The server could not update its features."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, _ABORT, (
        "A forwarded request carries a principal that cannot be read."
    )
    SNAPSHOT_NOT_FOUND = 98, False, _ABORT, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, False, _FIX, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, _REFRESH, "The server hosts no topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, _FIX, "The broker id is already in use."
    BROKER_ID_NOT_REGISTERED = 102, False, _FIX, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, True, _REFRESH, "The topic's id differs from the request's."
    INCONSISTENT_CLUSTER_ID = 104, False, _FATAL, "The cluster's id differs from the request's."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, _FIX, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, _RETRY, (
        "The fetch session mixes topic names and topic ids."
    )
    INELIGIBLE_REPLICA = 107, False, _ABORT, "A replica may not join the in-sync replicas."
    NEW_LEADER_ELECTED = 108, False, _ABORT, "The update succeeded and the leader has changed."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, _ABORT, "The offset is in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, _REJOIN, (
        "The member's epoch is fenced: it must give up its partitions and join again."
    )
    UNRELEASED_INSTANCE_ID = 111, False, _FATAL, "Another member still uses this group.instance.id."
    UNSUPPORTED_ASSIGNOR = 112, False, _FIX, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, False, _REJOIN, (
        "The member's epoch is stale: retry with the epoch of the next heartbeat."
    )
    MISMATCHED_ENDPOINT_TYPE = 114, False, _FIX, "The endpoint is of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, _FIX, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, _FIX, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, _ABORT, "The telemetry subscription is unknown."
    TELEMETRY_TOO_LARGE = 118, False, _FIX, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, False, _FIX, "The controller refused the broker's registration."
    TRANSACTION_ABORTABLE = 120, False, _ABORT, (
        "The transaction failed on the server; abort it to go on with the same transactional id."
    )
    INVALID_RECORD_STATE = 121, False, _ABORT, "The record cannot be acknowledged in its state."
    SHARE_SESSION_NOT_FOUND = 122, True, _RETRY, "The broker does not know this share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, _RETRY, "The epoch of the share session is not valid."
    FENCED_STATE_EPOCH = 124, False, _ABORT, "The state epoch of the share group does not match."
    INVALID_VOTER_KEY = 125, False, _FIX, "The voter key is not the receiving replica's."
    DUPLICATE_VOTER = 126, False, _FIX, "The voter is already one of the voters."
    VOTER_NOT_FOUND = 127, False, _FIX, "The voter is not one of the voters."
    INVALID_REGULAR_EXPRESSION = 128, False, _FIX, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, False, _REFRESH, (
        "The client's metadata is stale: start again from the bootstrap servers."
    )
    STREAMS_INVALID_TOPOLOGY = 130, False, _FIX, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, _FIX, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, _FATAL, "The topology's epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, True, _RETRY, "The broker has no room for a share session."
    GROUP_DELETION_FAILED = 134, False, _ABORT, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, False, _ABORT, (
        "The broker could not use the description of the topology."
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, False, _FIX, "The controller id is not registered."
    # fmt: on
