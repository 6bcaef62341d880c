"""What `storewise inspect` and `storewise convert` say of bad files."""

import json


def told_of(storewise, paths):
    """What the two commands say, by path: neither accepts or converts a bad file, or says more than
    needed. `storewise` runs the command: in this process, or in one of its own."""
    done = storewise("inspect", *paths)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    inspected = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["file"] for one in inspected] == list(map(str, paths))
    output = paths[0].parent / "converted"
    done = storewise("convert", *paths, "--to", "jsonl", "-j", "1", "-o", output)
    assert done.returncode == 2
    assert done.stdout == ""
    assert not output.exists() or list(output.iterdir()) == []
    *messages, last = done.stderr.splitlines()
    assert len(messages) == len(paths), done.stderr
    assert f"{len(paths)} of {len(paths)} outputs are not complete" in last
    converted = dict(zip(map(str, paths), messages, strict=True))
    return {one["file"]: (one, converted[one["file"]]) for one in inspected}


def check(told, path, says, place, *, any_place):
    result, message = told[str(path)]
    assert result["complete"] is False
    error = result["error"]
    assert says in " ".join(str(value) for value in error.values())
    if not any_place:
        assert (error["line"], error["offset"]) == (place or (None, None))
    where = str(path)
    if error["line"] is not None:
        where += f", line {error['line']} (byte {error['offset']})"
    assert message.startswith(f"storewise: {where}: {error['message']}")
