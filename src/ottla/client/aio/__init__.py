"""The asyncio side of the client: connections, and the three clients."""
