"""What `storewise inspect` and `storewise convert` say of bad files."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Told:
    """What the two commands say of bad files, by path; each file was alone in its message."""

    inspected: dict[str, dict[str, Any]]
    converted: dict[str, str]


def told_of(storewise, paths):
    """Run both commands on bad files: neither accepts or converts one, or says more than needed.

    `storewise` runs the command: in this process, or in one of its own.
    """
    done = storewise("inspect", *paths)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    inspected = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["file"] for one in inspected] == list(map(str, paths))
    output = paths[0].parent / "converted"
    done = storewise("convert", *paths, "--to", "jsonl", "-j", "1", "-o", output)
    assert done.returncode == 1
    assert done.stdout == ""
    assert not output.exists() or list(output.iterdir()) == []
    messages = done.stderr.splitlines()
    assert len(messages) == len(paths), done.stderr
    return Told(
        {one["file"]: one for one in inspected},
        {str(path): message for path, message in zip(paths, messages, strict=True)},
    )


def check(message, path, says, place, *, any_place):
    result = message.inspected[str(path)]
    assert result["complete"] is False
    error = result["error"]
    assert says in " ".join(str(value) for value in error.values())
    if not any_place:
        assert (error["line"], error["offset"]) == (place or (None, None))
    where = str(path)
    if error["line"] is not None:
        where += f", line {error['line']} (byte {error['offset']})"
    assert message.converted[str(path)].startswith(f"storewise: {where}: {error['message']}")
