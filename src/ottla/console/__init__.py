"""The console: a web page that shows a Kafka cluster and what goes on in it.

In here: the one poller (`cluster`), the HTTP server and its table of routes (`http`), who may do what (`access`), a
module for each view (`api`), and the page itself (`page`). It is a client of the cluster like any other. What the
command line needs too is in `ottla.inspection`; what the broker tells beyond Kafka's protocol is made in `broker/`.
"""
