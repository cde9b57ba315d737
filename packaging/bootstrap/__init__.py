"""What start.py is made of: finding Python, filling `.venv`, running the checks, building the bundle.

Standard library only, and syntax that Python 3.8 can read.
"""
