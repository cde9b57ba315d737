"""The device check: the same small models computed on a device and on the CPU, and what comes out compared."""
