"""Metrics that clients push (KIP-714): subscriptions, client instances, payloads, and what of them Prometheus gets.

Not the broker's own metrics, nor the page: those are in `broker/metrics`.
"""
