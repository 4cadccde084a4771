"""The part of a report that lays many runs side by side. It draws a comparison's tree, given as plain JSON; read `tree.py` first."""
