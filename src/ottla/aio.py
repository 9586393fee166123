"""The clients for asyncio: `ottla.aio.Producer`, `ottla.aio.Consumer` and `ottla.aio.Admin`.

Create them inside a running loop: they connect at once, and `async with` closes them.
"""

from ottla.client.aio.admin.client import Admin
from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.producer.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
