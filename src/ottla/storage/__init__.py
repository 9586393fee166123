"""Storage engines: they implement `ottla.ports.LogStore`."""
