"""The errors of schema registries: what a registry answered, by what the caller should do about it."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import AbortableError, ErrorCode, KafkaError, RetriableError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "RegistryAccessError",
    "RegistryRequestError",
    "RegistryUnavailableError",
    "SchemaNotFoundError",
    "SchemaRegistryError",
    "registry_error",
]

NO_ANSWER = 0
"""The status of a registry that did not answer."""


class SchemaRegistryError(KafkaError):
    """A schema registry refused a request or did not answer; `error_code` is Confluent's number.

    Kafka has no codes for it: `code` is the nearest one.
    """

    kafka_code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(
        self,
        status: int,
        error_code: int,
        message: str,
        context: Mapping[str, object] | None = None,
    ) -> None:
        self.status = status
        self.error_code = error_code
        super().__init__(int(self.kafka_code), message, context)
        self.args = (status, error_code, self.message, self.context)

    def __str__(self) -> str:
        number = f" {self.error_code}" if self.error_code else ""
        return f"schema registry{number}: {self.message}{self._context_text()}"


class RegistryUnavailableError(SchemaRegistryError, RetriableError):
    """No registry answered, or those that did are overloaded or without a leader: try again later."""

    kafka_code = ErrorCode.NETWORK_EXCEPTION


class SchemaNotFoundError(SchemaRegistryError, AbortableError):
    """There is no such subject, version or schema: register it, or correct the name or id."""

    kafka_code = ErrorCode.RESOURCE_NOT_FOUND


class IncompatibleSchemaError(SchemaRegistryError, AbortableError):
    """The schema breaks the compatibility level of its subject: change the schema, or the level."""

    kafka_code = ErrorCode.INVALID_REQUEST


class InvalidSchemaError(SchemaRegistryError, AbortableError):
    """The registry cannot read the schema: correct it."""

    kafka_code = ErrorCode.INVALID_REQUEST


class RegistryAccessError(SchemaRegistryError, AbortableError):
    """The credentials are missing, wrong or not sufficient."""

    kafka_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class RegistryRequestError(SchemaRegistryError, AbortableError):
    """The registry refused the request as it is, for example by its mode: the text says why."""

    kafka_code = ErrorCode.INVALID_REQUEST


# Confluent's numbers, whose first three digits are mostly the HTTP status.
_BY_ERROR_CODE: Mapping[int, type[SchemaRegistryError]] = {
    40401: SchemaNotFoundError,  # subject
    40402: SchemaNotFoundError,  # version
    40403: SchemaNotFoundError,  # schema
    40404: RegistryRequestError,  # subject was soft-deleted
    40405: RegistryRequestError,  # subject was not soft-deleted
    40406: RegistryRequestError,  # version was soft-deleted
    40407: RegistryRequestError,  # version was not soft-deleted
    40408: SchemaNotFoundError,  # the subject has no level of its own
    40409: SchemaNotFoundError,  # the subject has no mode of its own
    409: IncompatibleSchemaError,
    40901: IncompatibleSchemaError,
    42201: InvalidSchemaError,
    42202: RegistryRequestError,  # version
    42203: RegistryRequestError,  # compatibility level
    42204: RegistryRequestError,  # mode
    42205: RegistryRequestError,  # operation not permitted in this mode
    42206: RegistryRequestError,  # the schema is referenced
    42207: RegistryRequestError,  # too many schemas
    42208: RegistryRequestError,  # subject
    50001: RegistryUnavailableError,  # the store failed
    50002: RegistryUnavailableError,  # timeout
    50003: RegistryUnavailableError,  # forwarding to the leader failed
    50004: RegistryUnavailableError,  # the leader is not known
}
_BY_STATUS: Mapping[int, type[SchemaRegistryError]] = {
    401: RegistryAccessError,
    403: RegistryAccessError,
    404: SchemaNotFoundError,
    408: RegistryUnavailableError,
    409: IncompatibleSchemaError,
    422: InvalidSchemaError,
    429: RegistryUnavailableError,
}


def registry_error(
    status: int, error_code: int, message: str, **context: object
) -> SchemaRegistryError:
    """The exception for an answer; its class follows from what the caller should do."""
    found = _BY_ERROR_CODE.get(error_code) or _BY_STATUS.get(status)
    if found is None:
        found = RegistryUnavailableError if status >= 500 else RegistryRequestError
    return found(status, error_code, message, context)
