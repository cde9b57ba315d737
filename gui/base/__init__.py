"""Colours, theme and background work."""
