"""How fast a cluster is: one module for each verb of `ottla perf`, and what they measure with."""
