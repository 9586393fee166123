"""What the three kinds of schemas have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla.errors import OttlaError

MAX_DEPTH: Final = 100
# A comparison of two schemas of some hundred fields takes a few thousand steps.
MAX_STEPS: Final = 200_000


class SchemaError(OttlaError):
    """A text that is no schema, in one sentence."""


class SchemaTooComplexError(SchemaError):
    """A schema that is nested too deeply, or would take too long to compare."""


class ReferencedSchema(NamedTuple):
    """The text of a schema that another one refers to, by the name that it uses for it."""

    name: str
    text: str


class Incompatibility(NamedTuple):
    """A difference because of which data cannot be read; `{reader}` and `{writer}` stand for new and old."""

    error_type: str
    description: str
    additional_info: str = ""

    def text(self, reader: str, writer: str) -> str:
        """As Confluent's registry prints it."""
        description = self.description.replace("{reader}", reader).replace("{writer}", writer)
        if not self.additional_info:
            return f'{{errorType:"{self.error_type}", description:"{description}"}}'
        return (
            f"{{errorType:'{self.error_type}', description:'{description}', "
            f"additionalInfo:'{self.additional_info}'}}"
        )


class ParsedSchema(Protocol):
    """A schema that was understood."""

    @property
    def canonical(self) -> str:
        """The text that is stored: schemas with the same one have the same id."""

    @property
    def normalized(self) -> str:
        """The same one for schemas that differ only in the order of what has none."""

    def formatted(self, name: str) -> str:
        """The text in another format of Confluent's API; raises SchemaError if there is no such one."""

    def problems_reading(self, writer: ParsedSchema, budget: Budget) -> list[Incompatibility]:
        """Why this schema cannot read all data of another one; empty if it can."""


class SchemaParser(Protocol):
    """Understands the texts of one kind of schemas."""

    def __call__(self, text: str, references: Sequence[ReferencedSchema]) -> ParsedSchema: ...


@dataclass(slots=True)
class Budget:
    """How much work a comparison may still do: hostile schemas cost no more than this."""

    steps: int = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count a step; raises when there are too many."""
        self.steps -= steps
        if self.steps < 0:
            raise SchemaTooComplexError("the schemas are too complex to be compared")
