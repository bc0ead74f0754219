"""Names in a trial's folder that the supervisor knows as well: without any import, since its start-up time counts."""

PROTECTION, WRITTEN, WRITTEN_LIST = "protection.json", "written", "written.json"
