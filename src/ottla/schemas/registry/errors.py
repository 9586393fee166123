"""The errors of the REST API: HTTP status, Confluent's code, and the message."""

from __future__ import annotations

from typing import Final

from ottla.errors import OttlaError

VERSION_RANGE: Final = 'Allowed values are between [1, 2^31-1] and the string "latest"'
LEVELS_TEXT: Final = (
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive"
)
MODES_TEXT: Final = (
    "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT."
)


class RegistryError(OttlaError):
    """A request that the registry refuses, as its answer says it."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class RefusedSchemaError(RegistryError):
    """A schema that cannot be parsed, or that names types which nothing defines."""

    def __init__(self, message: str) -> None:
        super().__init__(422, 42201, message)


class NotLeaderError(RegistryError):
    """This registry does not write, and may not forward the request once more."""

    def __init__(self) -> None:
        super().__init__(500, 50004, "Leader not known.")


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    message = "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    return RegistryError(404, 40403, message)


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        404,
        40404,
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def config_not_found(subject: str) -> RegistryError:
    return RegistryError(
        404,
        40408,
        f"Subject '{subject}' does not have subject-level compatibility configured",
    )


def mode_not_found(subject: str) -> RegistryError:
    return RegistryError(
        404, 40409, f"Subject '{subject}' does not have subject-level mode configured"
    )


def incompatible_schema(subject: str, reasons: list[str]) -> RegistryError:
    return RegistryError(
        409,
        40901,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(reasons)}]',
    )


def invalid_version(text: str) -> RegistryError:
    return RegistryError(
        422, 42202, f"The specified version '{text}' is not a valid version id. {VERSION_RANGE}"
    )


def invalid_level() -> RegistryError:
    return RegistryError(422, 42203, LEVELS_TEXT)


def invalid_mode() -> RegistryError:
    return RegistryError(422, 42204, MODES_TEXT)


def not_permitted(message: str) -> RegistryError:
    return RegistryError(422, 42205, message)


def reference_exists(key_text: str) -> RegistryError:
    return RegistryError(422, 42206, f"One or more references exist to the schema {key_text}.")


def invalid_subject(subject: str, why: str) -> RegistryError:
    return RegistryError(
        422, 42208, f"The specified subject '{subject}' is not a valid subject: {why}"
    )


def schema_too_large() -> RegistryError:
    return RegistryError(422, 42209, "Register operation failed because schema is too large")


def store_failed(message: str) -> RegistryError:
    return RegistryError(500, 50001, message)


def timed_out(message: str) -> RegistryError:
    return RegistryError(500, 50002, message)


def forwarding_failed(message: str) -> RegistryError:
    return RegistryError(500, 50003, message)


def bad_request(message: str) -> RegistryError:
    """A body or a parameter that is not what the API takes."""
    return RegistryError(422, 422, message)
