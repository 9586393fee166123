"""A registry in a process of its own: prints its URL when it serves, and ends when its input does."""

from __future__ import annotations

import sys

import ottla


def main() -> None:
    bootstrap_servers, topic = sys.argv[1:3]
    with ottla.SchemaRegistry(
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        group=f"registries-of-{topic}",
        session_timeout_ms=int(sys.argv[3]),
    ) as registry:
        print(registry.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
