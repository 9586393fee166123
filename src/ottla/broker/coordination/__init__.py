"""Group and transaction coordinators: state machines of `ottla.core` over internal partitions, and what nodes ask each
other for them (markers, verification).
"""
