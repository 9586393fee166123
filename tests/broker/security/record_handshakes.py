"""Records what Apache Kafka answers to the scripts: `python -m tests.broker.security.record_handshakes JARS`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.broker.security.handshakes import SCRIPTS, play
from tests.client.security.certificates import make_certificates
from tests.client.security.secured_kafka import secured_kafka

RECORDED = Path(__file__).with_name("handshakes_of_kafka.txt")


def transcript(listener: str, name: str, lines: list[str]) -> str:
    return "".join([f"{listener}: {name}\n", *(f"    {line}\n" for line in lines), "\n"])


def recorded() -> dict[tuple[str, str], list[str]]:
    """The lines of each script."""
    found = {}
    for part in RECORDED.read_text(encoding="utf-8").split("\n\n"):
        title, *lines = part.splitlines() or [""]
        if title:
            listener, _, name = title.partition(": ")
            found[listener, name] = [line.strip() for line in lines]
    return found


def main(jars: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        with secured_kafka(jars, Path(folder), certificates) as addresses:
            RECORDED.write_text(
                "".join(
                    transcript(listener, name, play(listener, name, addresses[listener]))
                    for listener, scripts in SCRIPTS.items()
                    for name in scripts
                ),
                encoding="utf-8",
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
