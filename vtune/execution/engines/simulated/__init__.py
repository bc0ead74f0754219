"""Trainings that are only calculated: judges of what short trials say, and stand-ins for machines that are not here."""
