"""What a run can be turned into for others: a script, a report, a support file."""
