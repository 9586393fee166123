"""Sockets: listening, connections, frames in and answers out, and the memory that frames may take.

The meaning of a request is not known here; `broker.requests` finds its handler.
"""
