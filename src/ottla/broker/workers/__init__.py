"""Nodes as processes of one machine: a supervisor that has the data folder's lock and catalog, and its workers.

Here are their channel, the sockets that workers inherit, and the life of both. What a node does belongs elsewhere:
a worker is a broker of one node whose catalog and peers are reached through the channel.
"""
