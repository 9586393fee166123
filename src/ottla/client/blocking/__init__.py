"""The clients for programs without asyncio: faces over those of `client.aio`, each with a loop thread of its own."""
