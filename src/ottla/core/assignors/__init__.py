"""How the partitions of topics are shared among the members of a group: Kafka's four ways, and an interface."""
