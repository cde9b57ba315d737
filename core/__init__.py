"""Everything Hone does, without a window: options, events, runs, jobs, machine and (apart) the engine."""
