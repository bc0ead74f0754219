"""From a study's records to what other settings would do: costs learnt apart, put together again, corrected by what was
measured."""
