"""The clients for programs without asyncio: those of `client.aio`, each on a loop thread of its own."""
