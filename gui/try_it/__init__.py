"""The page on which trained models answer."""
