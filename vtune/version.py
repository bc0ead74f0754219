"""The one place that holds vtune's version; pyproject.toml and the CLI read it here."""

VERSION = "0.1.0"
