"""How often and how much somebody may ask, and what is noted of refusals."""
