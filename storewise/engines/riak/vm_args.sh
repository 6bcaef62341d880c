# Makes etc/vm.args of what Cuttlefish has made of riak.conf; Riak starts with that file where it
# is there. A version whose chkconfig leaves nothing starts with the few arguments that the file
# has already. $1 is `private` as in copy.sh, $2 the address as an Erlang term.
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
