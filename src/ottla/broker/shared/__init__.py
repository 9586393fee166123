"""Brokers that share a store, each in a process of its own and perhaps on a machine of its own.

`shared_broker.py` starts one. What is special about such a broker is elsewhere: the store in `storage/shared/`, who
leads in `broker/leaders/` (`leased`, `lease_keeper`), and the links between brokers in `broker/peer_links/`.
"""
