"""The walls around a trainer."""
