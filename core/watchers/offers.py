"""What messages of the watchers offer beside other options: to end the run one way or another, or to look."""

from core.errors import Fix, FixAction

STOP = Fix("Stop and keep", action=FixAction.STOP)
END = Fix("End now", action=FixAction.END)
REVEAL = Fix("Show the folder", action=FixAction.REVEAL)
