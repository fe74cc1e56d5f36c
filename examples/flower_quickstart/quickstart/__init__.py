"""A study: three files, of which task.py is the one to change."""
