"""Commands about the cluster: brokers, versions, disks, configs, offsets of partitions."""
