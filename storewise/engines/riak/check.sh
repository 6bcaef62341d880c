# Riak's check of riak.conf. Where it fails, its script prints a variable that nobody has set;
# Cuttlefish itself has the reason.
bin/riak chkconfig && exit 0
status=$?
erts-*/bin/escript bin/cuttlefish -e etc -d generated.conf -s share/schema -c etc/riak.conf
exit $status
