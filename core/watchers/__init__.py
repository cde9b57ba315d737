"""What watches a run and says so when something is wrong: each watcher a small function over recent events.

`recent.Recent` is what the last minutes came to, `thresholds` holds every limit, and `watchdog.Watchdog` raises and
withdraws the messages. The keeper runs it: it is there when no window is open and when the engine is stuck.
"""
