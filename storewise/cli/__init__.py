"""The commands of ``storewise``, a file each."""
