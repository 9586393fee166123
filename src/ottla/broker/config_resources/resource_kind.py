"""What the config APIs need of a type of resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.broker.node import Node
from ottla.config.describe import DescribedOption
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused


class ResourceKind(Protocol):
    """The resources of one type, such as all topics."""

    @property
    def stored_together(self) -> bool:
        """Whether changes of several resources may be stored in one step: none is checked against another."""
        ...

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        """Every option of a resource."""
        ...

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        """What was set for a resource."""
        ...

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        """Whether exactly these options may be set for a resource that `options_set` has found."""
        ...

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        """The changes of the catalog that replace the options of resources, by name; they have been checked."""
        ...

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        """The options of a resource have been replaced."""
        ...

    def unset_list(self, node: Node, option: str) -> str | Refused:
        """The value of a list that is not set; refused if there is no such option, or if it is not a list."""
        ...
