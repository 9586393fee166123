"""The links between nodes in different processes: Kafka's own frames over a socket that somebody else has connected.

Here are both ends of a link, and the peers that a node reaches over its links. How a socket between two processes
comes about, and what the requests mean, belongs elsewhere.
"""
