"""`ottla demo`: which one."""

from __future__ import annotations

import argparse


def run(arguments: argparse.Namespace) -> int:
    """Kills the pipeline or the broker, and says what is left."""
    kills = arguments.kills
    if arguments.what == "broker":
        from ottla.cli.broker_demo import broker_demo

        return broker_demo(arguments.records or 200_000, 5 if kills is None else kills)
    from ottla.cli.demo import demo

    return demo(arguments.records or 100_000, 1 if kills is None else kills)
