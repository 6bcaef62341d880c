#!/bin/bash
# What ParallelCluster runs on each instance of cluster.yaml when it has set it up (as root):
#   bootstrap.sh head SOURCE     once: Storewise, its engines and what they need, on /shared
#   bootstrap.sh compute         each database node and worker: its disk and its limits
# SOURCE is an archive of the checkout (README.md makes it with `git archive`), s3://... or a file.
# Run again by hand, `head` goes on where it was interrupted. What it says: /var/log/cfn-init.log on
# the head node, /var/log/parallelcluster/ on the others.
set -euo pipefail

role=${1:-}
shared=${STOREWISE_SHARED:-/shared}
scratch=${STOREWISE_SCRATCH:-/scratch}
etc=${STOREWISE_ETC:-/etc}
user=${STOREWISE_USER:-ubuntu}
home=$shared/storewise
conda=$home/conda

# The last release is well enough: it only brings the solver. Its checksum comes from the same
# place, so it protects against a broken transfer.
miniforge=https://github.com/conda-forge/miniforge/releases/latest/download
installer=Miniforge3-$(uname)-$(uname -m).sh

say() { echo "storewise bootstrap ($role): $*"; }
fail() {
    say "$*" >&2
    exit 1
}

# Servers open many files and map many of them.
raise_limits() {
    cat >"$etc/security/limits.d/90-storewise.conf" <<'LIMITS'
*  -  nofile   131072
*  -  nproc    131072
*  -  memlock  unlimited
LIMITS
    echo 'vm.max_map_count = 1048575' >"$etc/sysctl.d/90-storewise.conf"
    sysctl --quiet --load "$etc/sysctl.d/90-storewise.conf"
}

prepare_scratch() {
    # ParallelCluster has mounted the instance's own disks there, where it has any.
    mkdir -p "$scratch"
    chmod 1777 "$scratch"
    findmnt --noheadings --output SOURCE,FSTYPE,SIZE --target "$scratch" ||
        fail "$scratch is on no file system"
}

install_conda() {
    if [ -x "$conda/bin/conda" ]; then return; fi
    local aside
    aside=$(mktemp -d)
    say "fetching $installer"
    (
        cd "$aside"
        curl --fail --silent --show-error --location --retry 5 --remote-name "$miniforge/$installer"
        curl --fail --silent --show-error --location --retry 5 --remote-name "$miniforge/$installer.sha256"
        sha256sum --check --status "$installer.sha256"
    ) || fail "$installer could not be fetched, or is not what its checksum says; run again"
    rm -rf "$conda.part" "$conda"
    bash "$aside/$installer" -b -p "$conda" >/dev/null
    rm -rf "$aside"
}

# Servers for all instances in one place. They are read once, when a server starts.
install_engines() {
    if [ -e "$home/.engines" ]; then return; fi
    say "installing engines"
    "$conda/bin/conda" create --yes --quiet --override-channels --channel conda-forge \
        --channel bioconda --prefix "$home/engines" 'python=3.12' 'postgresql>=14' \
        'mysql-server>=8.0' 'mongodb>=6' 'openjdk=17' maven make git awscli fasta3 >/dev/null
    touch "$home/.engines"
}

install_storewise() {
    local source=$1 archive
    if [ -e "$home/checkout/.venv/bin/storewise" ]; then return; fi
    archive=$(mktemp)
    case $source in
        s3://*) "$home/engines/bin/aws" s3 cp --only-show-errors "$source" "$archive" ;;
        *) cp "$source" "$archive" ;;
    esac || fail "$source could not be read; see README.md, \"Files for the cluster\""
    mkdir -p "$home/checkout"
    tar --extract --gzip --file "$archive" --directory "$home/checkout"
    rm -f "$archive"
    say "installing Storewise"
    make --directory "$home/checkout" PYTHON="$home/engines/bin/python" env
    # Optional: Maven may not reach its repository, and the other engines work without.
    JAVA_HOME=$home/engines make --directory "$home/checkout" STORES="$home/stores" cassandra hbase ||
        say "no Cassandra and no HBase: make -C $home/checkout STORES=$home/stores cassandra hbase"
}

# What a session on the head node has, and by Slurm each of its jobs.
write_environment() {
    cat >"$etc/profile.d/storewise.sh" <<ENVIRONMENT
export PATH="$home/checkout/.venv/bin:$home/engines/bin:\$PATH"
export JAVA_HOME="$home/engines"
export STOREWISE_CASSANDRA_HOME="$home/stores/cassandra"
export STOREWISE_HBASE_HOME="$home/stores/hbase"
ENVIRONMENT
}

case $role in
    head)
        [ $# -eq 2 ] || fail "usage: bootstrap.sh head SOURCE"
        export PATH="$home/engines/bin:$PATH"
        mkdir -p "$home"
        raise_limits
        install_conda
        install_engines
        install_storewise "$2"
        write_environment
        mkdir -p "$shared/studies"
        chown -R "$user:$user" "$home" "$shared/studies"
        ;;
    compute)
        raise_limits
        prepare_scratch
        ;;
    *) fail "usage: bootstrap.sh head SOURCE | bootstrap.sh compute" ;;
esac
say "done"
