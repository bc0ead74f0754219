"""Reading the host, its storage and its devices from outside: while a trial runs, and once for `vtune doctor`."""
