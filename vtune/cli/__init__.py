"""Commands, one file each: parse, call, show. The only place that prints."""
