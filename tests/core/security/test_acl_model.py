"""ACLs against Kafka's rules, written down a second time in the simplest way."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.access import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Principal,
    Resource,
    ResourceType,
)
from ottla.core.security.access_decisions import AccessDecisions
from ottla.core.security.acl_changes import acl_id
from ottla.core.security.acls import AclTable

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
SUPER_USER = "User:root"
TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
NAMES = st.text("ab*", min_size=1, max_size=4)
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*", SUPER_USER])
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2"])
OPERATIONS = st.sampled_from([each for each in Operation if each > Operation.ALL])
ACLS = st.builds(
    AclBinding,
    TYPES,
    NAMES | st.just("*"),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS | st.just("*"),
    OPERATIONS | st.just(Operation.ALL),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
FILTERS = st.builds(
    AclFilter,
    TYPES | st.just(ResourceType.ANY),
    st.none() | NAMES,
    st.sampled_from([each for each in PatternType if each is not PatternType.UNKNOWN]),
    st.none() | PRINCIPALS,
    st.none() | HOSTS | st.just("*"),
    st.just(Operation.ANY) | OPERATIONS,
    st.sampled_from([Permission.ANY, Permission.ALLOW, Permission.DENY]),
)


def applies(acl: AclBinding, resource: Resource) -> bool:
    if acl.resource_type is not resource.type:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return resource.name.startswith(acl.name)
    return acl.name in (resource.name, "*")


def is_about(acl: AclBinding, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def model_allows(
    acls: Iterable[AclBinding],
    principal: str,
    host: str,
    operation: Operation,
    resource: Resource,
    *,
    allows_without_acls: bool,
) -> bool:
    if principal == SUPER_USER:
        return True
    of_resource = [acl for acl in acls if applies(acl, resource)]
    if not of_resource:
        return allows_without_acls
    mine = [acl for acl in of_resource if is_about(acl, principal, host)]
    if any(
        acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)
        for acl in mine
    ):
        return False
    return any(
        acl.permission is Permission.ALLOW
        and acl.operation in {operation, Operation.ALL, *IMPLIED.get(operation, ())}
        for acl in mine
    )


class Acls(RuleBasedStateMachine):
    """ACLs come and go, and the same questions are asked before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.table = AclTable()
        self.model: dict[str, AclBinding] = {}
        self.decisions = {
            allowed: AccessDecisions(self.table, [SUPER_USER], allows_without_acls=allowed)
            for allowed in (False, True)
        }
        self.asked: list[tuple[str, str, Operation, Resource]] = []

    @rule(acl=ACLS)
    def create(self, acl: AclBinding) -> None:
        self.table.put(acl_id(acl), acl)
        self.model[acl_id(acl)] = acl

    @rule(wanted=FILTERS)
    def delete(self, wanted: AclFilter) -> None:
        matching = [key for key, acl in self.model.items() if wanted.matches(acl)]
        assert matching == [key for key, acl in self.table.items() if wanted.matches(acl)]
        if wanted.is_exact:
            found = self.table.exactly(wanted)
            assert ([] if found is None else [found[0]]) == matching
        for key in matching:
            self.table.remove(key)
            del self.model[key]

    @rule(principal=PRINCIPALS, host=HOSTS, operation=OPERATIONS, of=TYPES, name=NAMES)
    def ask(
        self, principal: str, host: str, operation: Operation, of: ResourceType, name: str
    ) -> None:
        self.asked.append((principal, host, operation, Resource(of, name)))

    @rule(principal=PRINCIPALS, host=HOSTS, operation=OPERATIONS, of=TYPES)
    def ask_about_some(
        self, principal: str, host: str, operation: Operation, of: ResourceType
    ) -> None:
        """What is allowed with some resource that has a name of the model's is allowed with some."""
        who = Principal(*principal.split(":", 1))
        decisions = self.decisions[False]
        found = decisions.allows_some(who, host, operation, of)
        mine = [
            acl
            for acl in self.model.values()
            if acl.resource_type is of
            and is_about(acl, principal, host)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = [acl for acl in mine if acl.permission is Permission.DENY]
        allowed = [acl for acl in mine if acl.permission is Permission.ALLOW]
        literal = [acl.name for acl in denied if acl.pattern_type is PatternType.LITERAL]
        prefixes = [acl.name for acl in denied if acl.pattern_type is PatternType.PREFIXED]

        def is_left(acl: AclBinding) -> bool:
            if acl.pattern_type is PatternType.LITERAL and acl.name == "*":
                return True
            if acl.pattern_type is PatternType.LITERAL and acl.name in literal:
                return False
            return not any(acl.name.startswith(prefix) for prefix in prefixes)

        by_acls = "*" not in literal and any(map(is_left, allowed))
        on_a_new_name = decisions.allows(who, host, operation, Resource(of, "hardcode"))
        assert found is (on_a_new_name or by_acls)

    @invariant()
    def decisions_are_those_of_the_rules(self) -> None:
        assert len(self.table) == len(self.model)
        for principal, host, operation, resource in self.asked:
            who = Principal(*principal.split(":", 1))
            for allowed, decisions in self.decisions.items():
                expected = model_allows(
                    self.model.values(),
                    principal,
                    host,
                    operation,
                    resource,
                    allows_without_acls=allowed,
                )
                assert decisions.allows(who, host, operation, resource) is expected


TestAcls = Acls.TestCase
TestAcls.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
