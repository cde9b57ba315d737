"""What Hone is called where an operating system asks: the names that its bundles, installers and file types go by.

They stay as they are once the first release is out: systems know an application by them.
"""

from __future__ import annotations

NAME = "Hone"
SUMMARY = "Fine-tune models on your own computer and watch them train."
PUBLISHER = "The Hone contributors"
COPYRIGHT = "Copyright The Hone contributors. Apache License 2.0."

BUNDLE_ID = "hone.Hone"
"""Of no domain: the project has none."""

RUN_SUFFIX = "hone"
RUN_KIND = "Hone run"
"""What a file manager says a `.hone` file is."""

RUN_TYPE = "hone.run"
"""Its type on a Mac (UTI)."""

RUN_MIME = "application/x-hone-run"
"""Its type on a Linux desktop."""

WINDOWS_CLASS = "Hone.Run"
"""Its type in the registry of Windows."""

OLDEST_MACOS = "14.0"
"""The oldest that PyTorch's wheels for Macs are made for, and only with Apple chips."""
