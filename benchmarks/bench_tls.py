"""What does TLS cost a broker, and what does it cost Kafka?

Run: python -m benchmarks.bench_tls
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.bench_fetch import (
    BATCHES_PER_PARTITION,
    RECORDS_PER_BATCH,
    TOPICS,
    VALUE_BYTES,
    fill,
)
from benchmarks.bench_produce import new_topic
from benchmarks.clients import BATCHED, NO_OPTIONS, ONE_PER_REQUEST, Style
from benchmarks.comparison import Row, observed
from benchmarks.measure import Load, Measurement
from benchmarks.peers import ApacheKafka, FoundPeers, Ottla, Peer, found_peers, free_ports
from benchmarks.run import run

from benchmarks import clients
from ottla.broker.security.development_certificates import make_ca, make_server

DAYS = 1
WITH_ADDRESSES = ("listeners", "advertised.listeners")


def certificates(folder: Path) -> tuple[Path, Path]:
    """The file of an authority, and that of a broker with its key."""
    authority = make_ca(folder / "certificates", days=DAYS)
    server = make_server(folder / "certificates", ["127.0.0.1"], days=DAYS)
    return authority.path, server.path


class TlsOttla(Ottla):
    """`ottla serve` with a plaintext and a TLS listener."""

    def prepare(self) -> None:
        super().prepare()
        self.authority, server = certificates(self.folder.parent / f"{self.folder.name}-tls")
        (port,) = free_ports(1)
        self.tls_address = f"127.0.0.1:{port}"
        self.settings = {"ssl.keystore.location": server}

    def command(self) -> list[str]:
        return [*super().command(), "--listen", f"SSL://{self.tls_address}"]


class TlsKafka(ApacheKafka):
    """Kafka with a plaintext and a TLS listener."""

    def prepare(self) -> None:
        folder = self.folder.parent / f"{self.folder.name}-tls"
        self.authority, server = certificates(folder)
        (port,) = free_ports(1)
        self.tls_address = f"127.0.0.1:{port}"
        self.settings = {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server,
        }
        super().prepare()
        text = self.settings_file.read_text(encoding="utf-8")
        lines = [
            f"{line},SSL://{self.tls_address}" if line.partition("=")[0] in WITH_ADDRESSES else line
            for line in text.splitlines()
        ]
        self.settings_file.write_text("\n".join(lines), encoding="utf-8")


def options_for(peer: Peer, *, with_tls: bool) -> Mapping[str, object]:
    """What a client needs for a listener."""
    if not with_tls:
        return NO_OPTIONS
    assert isinstance(peer, TlsOttla | TlsKafka)
    return {
        "bootstrap.servers": peer.tls_address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(peer.authority),
    }


def produce(style: Style, unit: str, with_tls: bool, peer: Peer, seconds: float) -> Measurement:
    topic = new_topic(peer)
    options = options_for(peer, with_tls=with_tls)

    def load() -> Load:
        return clients.produce(
            peer.bootstrap_server,
            topic,
            value_bytes=VALUE_BYTES,
            seconds=seconds,
            style=Style(style.queued_records, {**style.options, **options}),
        )

    measurement, _ = observed(peer, unit, load)
    peer.delete_topic(topic)
    return measurement


def consume(with_tls: bool, peer: Peer, seconds: float) -> Measurement:
    fill(peer)

    def load() -> Load:
        return clients.consume(
            peer.bootstrap_server,
            TOPICS,
            records_per_partition=BATCHES_PER_PARTITION * RECORDS_PER_BATCH,
            value_bytes=VALUE_BYTES,
            seconds=seconds,
            options=options_for(peer, with_tls=with_tls),
        )

    return observed(peer, "MB/s", load)[0]


def find_peers() -> FoundPeers:
    """Both brokers, each with two listeners."""
    return found_peers(TlsOttla, TlsKafka)


def _rows() -> list[Row]:
    rows = []
    for question, name, unit, measure in (
        ("produce", "1 KB in batches", "MB/s", partial(produce, BATCHED, "MB/s")),
        (
            "produce",
            "1 KB, one per request",
            "requests/s",
            partial(produce, ONE_PER_REQUEST, "requests/s"),
        ),
        ("fetch", "1 KB in batches of 900", "MB/s", consume),
    ):
        plain = f"{name}, plaintext"
        rows.append(Row(question, "librdkafka", plain, unit, partial(measure, False)))
        rows.append(
            Row(question, "librdkafka", f"{name}, TLS", unit, partial(measure, True), against=plain)
        )
    return rows


ROWS = _rows()

if __name__ == "__main__":
    run("tls", ROWS, starts=1, find_peers=find_peers)
