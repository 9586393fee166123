"""Apache Kafka with a port for every way to be secure."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.apache_kafka.programs import (
    STOP_SECONDS,
    TOOL_SECONDS,
    free_ports,
    java,
    new_cluster_id,
    wait_for_port,
)
from tests.client.security.certificates import Certificates

USER, PASSWORD = "alice", "alice-secret"
# This one may do only what ACLs allow.
PLAIN_USER, PLAIN_PASSWORD = "bob", "bob-secret"
SESSION_MS = 6000

PROTOCOLS = {
    "CONTROLLER": "PLAINTEXT",
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "KNOWN": "SSL",
    "OTHERNAME": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES = "org.apache.kafka.common.security"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required;"
_LOGINS = {
    "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}" '
    f'user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
    "scram-sha-256": _SCRAM,
    "scram-sha-512": _SCRAM,
    "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}


@contextmanager
def secured_kafka(
    jars: Path, folder: Path, certificates: Certificates
) -> Iterator[Mapping[str, str]]:
    """The addresses of the listeners by their names."""
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    properties = folder / "server.properties"
    options = _options(folder, ports, certificates)
    text = "".join(f"{name}={value}\n" for name, value in options.items())
    properties.write_text(text, encoding="utf-8")
    scram = [
        word
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("--add-scram", f'{mechanism}=[name="{USER}",password="{PASSWORD}"]')
    ]
    words = ("format", "-t", new_cluster_id(), "-c", str(properties), *scram)
    command = java(jars, "kafka.tools.StorageTool", *words)
    done = subprocess.run(command, capture_output=True, timeout=TOOL_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    with (folder / "kafka.log").open("wb") as log:
        process = subprocess.Popen(
            java(jars, "kafka.Kafka", str(properties)), stdout=log, stderr=log
        )
    try:
        for port in ports.values():
            wait_for_port(port, process)
        yield {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        process.terminate()
        process.wait(STOP_SECONDS)
    finally:
        process.kill()
        process.wait()


def _options(folder: Path, ports: dict[str, int], certificates: Certificates) -> dict[str, object]:
    addresses = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    options: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "OPEN",
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses[1:]),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in PROTOCOLS.items()),
        "log.dirs": folder / "data",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER};User:CN=client",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasltls.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.known.ssl.client.auth": "required",
        "listener.name.known.ssl.truststore.type": "PEM",
        "listener.name.known.ssl.truststore.location": certificates.ca,
    }
    for name, protocol in PROTOCOLS.items():
        prefix = f"listener.name.{name.lower()}"
        if protocol.endswith("SSL"):
            file = certificates.wrong_name if name == "OTHERNAME" else certificates.server
            options[f"{prefix}.ssl.keystore.type"] = "PEM"
            options[f"{prefix}.ssl.keystore.location"] = file
        if protocol.startswith("SASL"):
            for mechanism, login in _LOGINS.items():
                options[f"{prefix}.{mechanism}.sasl.jaas.config"] = login
    for mechanism in _LOGINS:
        options[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = SESSION_MS
    return options
