"""The one error of the set-up."""


class SetupError(Exception):
    """Something a person has to put right. Its text says what happened, why, and what to do."""
