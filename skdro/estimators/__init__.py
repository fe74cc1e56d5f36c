"""What users import: thin classes that validate, compose and store. No mathematics here."""
