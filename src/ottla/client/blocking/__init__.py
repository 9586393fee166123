"""The clients for programs without asyncio: thin faces over those of `client.aio`, each with a loop thread of its own."""
