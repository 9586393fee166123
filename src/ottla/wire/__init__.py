"""Kafka's protocol as bytes: declarations of messages and stored formats, the codec compiler, frames.

`messages/` has one module for each API, `stored/` one for each format of internal topics. Nothing here does IO or
knows what a message means.
"""
