"""Runs: their folders, events, state, queue and summaries."""
