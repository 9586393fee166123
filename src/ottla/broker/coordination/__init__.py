"""Group and transaction coordinators: state machines of `ottla.core` over internal partitions, and the requests
between nodes for them (markers, verification).
"""
