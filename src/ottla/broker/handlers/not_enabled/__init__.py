"""One module for each API of a part of Kafka that this broker does not have, or has not enabled.

Clients get the answer of an Apache Kafka that has the part turned off; like that one, the broker advertises these APIs.
"""
