"""The producer on asyncio: sends batches to leaders, and talks to coordinators of transactions.

What it does about an answer is decided in `client/state/producer/`.
"""
