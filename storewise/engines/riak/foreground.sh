# The server in the foreground; its log goes to the output, whatever logger this version has.
# Each partition has files open, so the limit is raised as far as it may be. epmd is started here,
# where it ends with the server: each admin command would start one too, which nobody ends. Of
# several nodes on a host the first one has it.
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
