"""The clients on asyncio."""
