"""How much memory a run takes: forecast or measured; whether that fits; and what to do if not.

No torch: the engine fills in what only it can know (`core.engine.memory`), and both front ends show the same structs.
"""
