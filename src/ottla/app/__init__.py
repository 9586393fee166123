"""Kafka in an application: listeners, templates, retries and dead letters, over the client's public API.

Belongs here: what `from ottla.app import …` offers, and one folder for each part of it. `declarations/` turns what
users write into data, `delivery/` decides without IO, `listening/` runs consumers and commits, `letters/` has retry
topics and dead letters. Anything that knows the broker does not belong here: an app works with every Kafka cluster.
"""
