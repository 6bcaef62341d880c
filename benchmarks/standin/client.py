"""A command of the stand-in PBS: hands its words to the scheduler and prints the answer.

Run with ``python -S -E -I client.py SOCKET SECONDS COMMAND WORD...``; it takes SECONDS at least, as
the real command does.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

# In ticks since the host's start: what Python itself takes to start counts as well.
ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
started = ticks / os.sysconf("SC_CLK_TCK")
place, least, command, *words = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(place)
    connection.sendall(json.dumps([command, words, str(Path.cwd())]).encode() + b"\n")
    with connection.makefile("rb") as answer:
        status, out, err = json.loads(answer.read())
time.sleep(max(0.0, float(least) - (time.clock_gettime(time.CLOCK_BOOTTIME) - started)))
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
