"""Finding a release of Riak KV, and making a node's own start directory of it.

A release is a directory with ``bin/riak``, ``releases`` and ``erts-*``; packages put it into
``/usr/lib/riak`` or ``/usr/lib64/riak`` and a launcher with fixed paths, which changes to the user
`riak`, onto the PATH. The start script takes the directory above its own real path for the
release, and Cuttlefish writes below ``releases``: a node gets copies of ``bin`` and ``releases``
(a few MB) and symbolic links to the rest.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from storewise.engines.contract.server import Installation
from storewise.engines.support.installation import module_environment
from storewise.errors import EngineError

VARIABLES = ("STOREWISE_RIAK_HOME", "RIAK_HOME")
HINT = (
    "install OpenRiak's package of Riak KV 3.2 or 3.4, or name its release directory in the "
    "setting `home`, in STOREWISE_RIAK_HOME or RIAK_HOME"
)
_USUAL = (
    "/usr/lib/riak",
    "/usr/lib64/riak",
    "/opt/riak*",
    "/usr/local/riak*",
    "/usr/local/lib/riak",
)
#: Where in a directory that a user names the release may be.
_WITHIN = ("", "riak", "rel/riak", "lib/riak", "lib64/riak", "usr/lib/riak", "usr/lib64/riak")
_MAJOR = 3


def find_release(settings: Mapping[str, Any]) -> Installation:
    """The release on this host; its program is ``riak``, the start script itself.

    Looked for in ``settings["home"]``, else in the directories that STOREWISE_RIAK_HOME and
    RIAK_HOME name, else behind the ``riak`` on the PATH (after loading ``settings["module"]``),
    else where packages put it. Raises EngineError with the places, or for another version than 3.
    """
    environment = dict(module_environment(settings["module"])) if settings.get("module") else {}
    named = settings.get("home") or next(filter(None, map(os.environ.get, VARIABLES)), None)
    looked: list[str] = []
    for place in _places(named, environment.get("PATH", os.environ.get("PATH", os.defpath))):
        if _is_release(place):
            version = _version(place)
            return Installation({"riak": place / "bin" / "riak"}, version, environment)
        looked.append(str(place))
    where = f"in {named}" if named else ", ".join(["on PATH", *VARIABLES, *_USUAL])
    raise EngineError(
        f"Riak KV: no release (a directory with bin/riak, releases and erts-*; looked {where}); "
        f"{HINT}"
    )


def _places(named: str | None, path: str) -> Iterator[Path]:
    if named:
        home = Path(os.path.expandvars(named)).expanduser()
        if home.name == "bin":
            home = home.parent
        yield from (home / within for within in _WITHIN)
        return
    program = shutil.which("riak", path=path)
    if program is not None:
        yield Path(program).resolve().parent.parent
    for pattern in _USUAL:
        yield from map(Path, sorted(glob(pattern), reverse=True))  # noqa: PTH207


def _is_release(place: Path) -> bool:
    return (
        (place / "bin" / "riak").is_file()
        and (place / "releases").is_dir()
        and any(place.glob("erts-*"))
    )


def _version(release: Path) -> str:
    """As the release records it; nothing needs to be started for it.

    ``riak version`` is no command of every 3.x. The file's form is that of OTP's releases: the
    version of the emulator and that of the release
    (https://www.erlang.org/doc/system/release_structure.html).
    """
    record = release / "releases" / "start_erl.data"
    try:
        words = record.read_text(encoding="utf-8", errors="replace").split()
    except OSError as error:
        raise EngineError(f"Riak KV: {record}: {error.strerror}") from error
    number = re.search(r"\d+(\.\d+)+\S*", words[1]) if len(words) > 1 else None
    if number is None:
        raise EngineError(f"Riak KV: {record} names no version: {' '.join(words)!r}")
    if int(number[0].split(".")[0]) != _MAJOR:
        raise EngineError(
            f"Riak KV: {release} is version {number[0]}, and Storewise runs {_MAJOR}.x; {HINT}"
        )
    return f"Riak KV {number[0]}"


#: Runs in the node's directory; $1 is the release, $2 the node's directory, $3 is `private` where
#: scripts must not put the secret among nodes on the command lines of the programs that they
#: start. Packages have the release's path in their scripts. `cf_config` makes a directory for pipes
#: in /tmp, whatever PIPE_DIR says: it would stay, and be one user's alone.
COPY = r"""
set -e
cp -RL "$1/bin" "$1/releases" .
chmod -R u+w bin releases
for part in "$1"/erts-* "$1"/lib "$1"/share; do
    if [ -e "$part" ]; then ln -s "$part" .; fi
done
for script in bin/riak bin/riak-admin bin/cf_config bin/hooks/*; do
    if [ -f "$script" ]; then
        sed -i -e "s#$1/#$2/#g" -e "s#/tmp/erl_pipes/#$2/pipes/#g" "$script"
        if [ "$3" = private ]; then sed -i -e 's# -setcookie ${COOKIE}##g' "$script"; fi
    fi
done
"""

#: Riak's check of riak.conf. Where it fails, its script prints a variable that nobody has set;
#: Cuttlefish itself has the reason.
CHECK = r"""
bin/riak chkconfig && exit 0
status=$?
erts-*/bin/escript bin/cuttlefish -e etc -d generated.conf -s share/schema -c etc/riak.conf
exit $status
"""

#: Makes etc/vm.args of what Cuttlefish has made of riak.conf; Riak starts with that file where it
#: is there. A version whose chkconfig leaves nothing starts with the few arguments that the file
#: has already. $1 is as $3 above, $2 the address as an Erlang term.
VM_ARGS = r"""
set -e
made=$(find . -maxdepth 3 -path './*generated*' -name 'vm.*.args' | sort | tail -n 1)
if [ -z "$made" ]; then
    echo "riak chkconfig has made no vm.*.args of etc/riak.conf: Storewise's own is used"
    cp etc/vm.args etc/vm.args.new
elif [ "$1" = private ]; then
    grep -v -e '^-setcookie' "$made" > etc/vm.args.new
else
    cat "$made" > etc/vm.args.new
fi
echo "-kernel inet_dist_use_interface $2" >> etc/vm.args.new
echo "-start_epmd false" >> etc/vm.args.new
mv etc/vm.args.new etc/vm.args
if [ -n "$made" ]; then rm -f "$made"; fi
"""

#: The server in the foreground; its log goes to the output, whatever logger this version has.
#: Each partition has files open, so the limit is raised as far as it may be. epmd is started here,
#: where it ends with the server: each admin command would start one too, which nobody ends. Of
#: several nodes on a host the first one has it.
FOREGROUND = r"""
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"
: >> log/console.log
tail --pid=$$ -n +1 -F log/console.log 2>/dev/null &
erts-*/bin/epmd -daemon
tries=0
until erts-*/bin/epmd -names > /dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ]; then
        echo "epmd does not answer at port $ERL_EPMD_PORT: address already in use?"
        exit 1
    fi
    sleep 0.1
done
exec bin/riak foreground
"""
