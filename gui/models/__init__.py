"""Qt item models over immutable rows."""
