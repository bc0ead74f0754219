"""Reference trainings: plain PyTorch scripts that know nothing of vtune."""
