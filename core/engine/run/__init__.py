"""What any engine needs for a run: its steps, requests, checkpoints, the best, predictions, events and its end.

An engine hands in facts and callables; no training library is imported here.
"""
