"""The self-test: vtune's instruments against trainings and process trees whose truth is known."""
