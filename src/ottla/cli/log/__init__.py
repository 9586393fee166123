"""`ottla log`: prints the files of a data folder. `storage/local/inspection` decides what counts as damage."""
