"""How one robust problem is solved on one machine, without noise."""
