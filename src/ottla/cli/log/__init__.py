"""The files of a data folder, as `ottla log` prints them; what counts as damage is decided in `storage/local`."""
