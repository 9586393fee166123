"""What a question is: a request of one API that is asked in many situations."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from tests.security.kafka_answers.answer_text import REFUSALS
from tests.security.kafka_answers.situations import CALLER, MINE, SUPER_USER, Acl, Situation, matrix
from tests.security.kafka_answers.world import World

from ottla.access import ResourceType
from ottla.errors import ErrorCode

Fields = Mapping[str, Any]


class Question(NamedTuple):
    """`about` is what the API looks at ACLs of, and None for questions that only a super user asks.

    `before` asks for something else first, and says what the question is then. `restore` makes the world again what
    it was before an answer. ACLs that are `always` in force are so in every situation.
    `prefix` is what the topics that ACLs are about begin with.
    """

    api: str
    versions: Sequence[int]
    title: str
    fields: Fields | Callable[[World], Fields]
    about: Sequence[ResourceType] | None
    restore: Callable[[World, Any], None] | None = None
    besides: Sequence[Situation] = ()
    caller: str = CALLER
    before: Callable[[World, Situation], Fields] | None = None
    always: frozenset[Acl] = frozenset()
    prefix: str = MINE

    def fields_in(self, world: World, situation: Situation) -> Fields:
        if self.before is not None:
            return self.before(world, situation)
        return self.fields(world) if callable(self.fields) else self.fields

    @property
    def situations(self) -> list[Situation]:
        if self.about is None:
            return [SUPER_USER]
        return [
            each.of(self.caller).on(self.prefix).with_acls(self.always)
            for each in (*matrix(self.about), *self.besides)
        ]

    @property
    def with_messages(self) -> Container[ErrorCode]:
        """The errors whose texts are compared: where ACLs are not what it is about, all of them."""
        return set(ErrorCode) if self.about is None else REFUSALS
