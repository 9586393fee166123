"""`ottla perf`: one module for each verb, and the measures that they share."""
