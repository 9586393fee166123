"""What the console knows about the cluster: one poller for all browsers, its snapshots, and their history."""
