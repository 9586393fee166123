"""Sockets: listening, connections, frames in and answers out, and the memory that frames may take.

What a request means is not known here; `broker.requests` finds its handler.
"""
