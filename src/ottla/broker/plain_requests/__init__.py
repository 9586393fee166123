"""Requests of the kind that clients send most, answered many at a time: those that one receive brought.

What takes a closer look, and every refusal, is left to the handlers. Kafka's rules are in `core`, for both.
"""
