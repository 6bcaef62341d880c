# Makes a node's own start directory. Runs in that directory; $1 is the release, $2 the directory,
# $3 is `private` where scripts must not put the secret among nodes on the command lines of the
# programs that they start. Packages have the release's path in their scripts. `cf_config` makes a
# directory for pipes in /tmp, whatever PIPE_DIR says: it would stay, and be one user's alone.
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
