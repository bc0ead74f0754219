"""Files that somebody else may have written, read within bounds: no such file can hang, fill the memory or crash."""
