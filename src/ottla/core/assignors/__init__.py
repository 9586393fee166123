"""The assignment of partitions to the members of a group: Kafka's four assignors, and their interface."""
