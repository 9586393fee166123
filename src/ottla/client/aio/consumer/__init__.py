"""The consumer on asyncio: fetching, positions, polling, and the calls of user code.

Membership is in `client.aio.group`.
"""
