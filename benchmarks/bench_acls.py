"""What do ACLs cost a broker per request, and what do they cost Kafka?

Run: python -m benchmarks.bench_acls
"""

from __future__ import annotations

from benchmarks.peers import ApacheKafka, FoundPeers, Ottla, found_peers
from benchmarks.run import run

from benchmarks import bench_fetch, bench_produce
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse

# ACLs of others, which a decision must not be slower for.
OTHERS = 1000
TOPIC, LITERAL, PREFIXED, ALL, READ, ALLOW = 2, 3, 4, 2, 3, 3
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Clients that do not log in create the ACLs below, and are allowed the rest by them.
    "allow.everyone.if.no.acl.found": "true",
}


def create_acls(bootstrap_server: str) -> None:
    """Allows everything with topics to clients that do not log in, and something to others."""
    creations = [_creation("*", LITERAL, "User:ANONYMOUS", ALL)] + [
        _creation(f"team-{number}-", PREFIXED, f"User:service-{number % 50}", READ)
        for number in range(OTHERS)
    ]
    with RawConnection(bootstrap_server) as connection:
        answer = connection.call(
            CreateAclsRequest(creations=creations), CreateAclsResponse, version=3
        )
    assert {result.error_code for result in answer.results} == {ErrorCode.NONE}


def _creation(name: str, pattern_type: int, principal: str, operation: int) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


class OttlaWithAcls(Ottla):
    """`ottla serve` with an authorizer."""

    name = "ottla with ACLs"

    def start(self) -> float:
        seconds = super().start()
        create_acls(self.bootstrap_server)
        return seconds


class KafkaWithAcls(ApacheKafka):
    """Kafka with its StandardAuthorizer."""

    name = "kafka with ACLs"

    def start(self) -> float:
        seconds = super().start()
        create_acls(self.bootstrap_server)
        return seconds


def find_peers() -> FoundPeers:
    """Each broker with ACLs and without, all in one run."""
    with_acls, missing = found_peers(OttlaWithAcls, KafkaWithAcls, settings=AUTHORIZER)
    without, _ = found_peers(Ottla, ApacheKafka)
    both = (peer for pair in zip(with_acls, without, strict=True) for peer in pair)
    return list(both), missing


ROWS = [row for row in (*bench_produce.ROWS, *bench_fetch.ROWS) if row.driver == "raw"]

if __name__ == "__main__":
    run("acls", ROWS, starts=1, find_peers=find_peers)
