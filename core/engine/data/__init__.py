"""A person's files, read into what the tasks train on; each failure names file, row and column."""
