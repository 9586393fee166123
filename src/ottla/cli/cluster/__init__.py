"""The cluster and what its brokers know: brokers, versions, disks, configs, offsets of partitions."""
