"""The life of an app's process: how it runs, drains and restarts, and what it tells about itself.

Belongs here: the process of `ottla app run`, health and readiness, stalls and their reasons, metrics, traces, the
AsyncAPI document, and the app inside of web frameworks. How records are handled and committed does not belong here.
"""
