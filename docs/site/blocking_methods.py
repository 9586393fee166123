"""Shows methods of the blocking clients with the signature and docstring of the asyncio method that they call.

In the source, `flush = waiting(AsyncProducer.flush)` is an attribute; for a user it is a method.
"""

from __future__ import annotations

from typing import Any

import griffe

WRAPPERS = {"waiting", "calling"}


class BlockingMethods(griffe.Extension):
    """Replaces such attributes by methods after all modules are loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        if "client" in pkg.members and "blocking" in pkg["client"].members:
            for module in pkg["client.blocking"].modules.values():
                for client in module.classes.values():
                    if not client.is_alias:
                        replace_attributes(client, loader)


def replace_attributes(client: griffe.Class, loader: griffe.GriffeLoader) -> None:
    for name, attribute in list(client.members.items()):
        value = getattr(attribute, "value", None)
        if not isinstance(value, griffe.ExprCall) or str(value.function) not in WRAPPERS:
            continue
        owner, _, method_name = value.arguments[0].canonical_path.rpartition(".")
        method = loader.modules_collection[owner].all_members[method_name]
        shown = griffe.Function(
            name,
            parameters=griffe.Parameters(*method.parameters),
            returns=method.returns,
            docstring=method.docstring,
            lineno=attribute.lineno,
            endlineno=attribute.endlineno,
            parent=client,
        )
        client.set_member(name, shown)
