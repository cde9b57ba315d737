"""Finding, loading and heading models, each failure in words a person can act on."""
