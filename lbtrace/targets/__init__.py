"""What is traced: a command that lbtrace starts, a process, files; and which processes its
probes reach."""
