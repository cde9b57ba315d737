"""Which Hone this is. pyproject.toml reads the number from here."""

VERSION = "0.1.0"
