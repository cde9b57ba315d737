"""What everything else builds on: errors, files, formats, settings, processes, jobs."""
