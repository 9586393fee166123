"""`ottla topics`."""

from __future__ import annotations

import argparse

from ottla.cli.connecting import admin_of
from ottla.cli.failing import DONE
from ottla.cli.output import Output, columns, repeat

LISTED = columns(name="NAME", partitions="PARTITIONS", replicas="REPLICAS")


def list_topics(arguments: argparse.Namespace) -> int:
    """The topics by name, with the numbers of their partitions and replicas."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            names = sorted(admin.list_topics(list_internal=not arguments.exclude_internal))
            found = admin.describe_topics(names) if names else {}
            rows = [
                {
                    "name": name,
                    "topic_id": found[name].topic_id,
                    "internal": found[name].is_internal,
                    "partitions": len(found[name].partitions),
                    "replicas": min((len(p.replicas) for p in found[name].partitions), default=0),
                }
                for name in names
            ]
            output.rows(LISTED, rows)
            return DONE

        return repeat(arguments.watch, show)
