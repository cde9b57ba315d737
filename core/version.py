"""Which Hone this is. pyproject.toml reads the number from here."""

VERSION = "0.1.0"

REPOSITORY = ""
"""Where releases are published, as `owner/name` on GitHub; `packaging/fill_repository.py` writes it for a release.

Empty: this build knows of no such place, and Settings says so.
"""
