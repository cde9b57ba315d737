"""Hone tries itself out, as a bundle or from its source: `hone --selftest`. It drives the engine as the window does."""
