"""Groups as resources with configs: a group need not exist to have them."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config_resources.option_changes import find_list_option
from ottla.broker.node import Node
from ottla.broker.topics import config_changes
from ottla.config.describe import DescribedOption
from ottla.config.group import GroupOptions
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog

logger = EventLog(__name__)


class GroupResources:
    """The groups of the cluster."""

    stored_together = True

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        if not name:
            return Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return node.options.describe_group(name)

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        if not name:
            return Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        return node.cluster.catalog.group_configs.get(name, {})

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        return node.options.check_group_options(options)

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        """The members of a group get the options with their next heartbeat."""
        return node.cluster.catalog.configure_groups(changed)

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        logger.info(
            "group_configured",
            "group %(group)s configured: %(changes)s",
            group=name,
            changes=config_changes(before, options),
        )

    def unset_list(self, node: Node, option: str) -> str | Refused:
        known = find_list_option(GroupOptions, option)
        return known if isinstance(known, Refused) else known.render(known.default) or ""
