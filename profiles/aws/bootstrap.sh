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
envs=$home/envs
servers=(postgresql mysql-server mongodb)

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

# An environment on the shared file system, for all instances: its programs are read once, when they
# start. make_environment NAME PACKAGE...
make_environment() {
    local prefix=$envs/$1
    if [ -e "$prefix/.made" ]; then return; fi
    say "installing $*"
    rm -rf "$prefix"
    "$conda/bin/conda" create --yes --quiet --override-channels --channel conda-forge \
        --channel bioconda --prefix "$prefix" "${@:2}" >/dev/null && touch "$prefix/.made"
}

# Each server apart: they ask for different versions of the same libraries, and one that cannot be
# had is no reason to have none.
install_servers() {
    local server
    for server in "${servers[@]}"; do
        make_environment "$server" "$server" || say "no $server: what conda said is above"
    done
}

install_storewise() {
    local source=$1 archive
    if [ -e "$home/checkout/.venv/bin/storewise" ]; then return; fi
    archive=$(mktemp)
    case $source in
        s3://*) "$envs/base/bin/aws" s3 cp --only-show-errors "$source" "$archive" ;;
        *) cp "$source" "$archive" ;;
    esac || fail "$source could not be read; see README.md, \"Files for the cluster\""
    mkdir -p "$home/checkout"
    tar --extract --gzip --file "$archive" --directory "$home/checkout"
    rm -f "$archive"
    say "installing Storewise"
    make --directory "$home/checkout" PYTHON="$envs/base/bin/python" env
    # Optional: Maven may not reach its repository, and the other engines work without.
    JAVA_HOME=$envs/base make --directory "$home/checkout" STORES="$home/stores" cassandra hbase ||
        say "no Cassandra and no HBase: make -C $home/checkout STORES=$home/stores cassandra hbase"
}

# What a session on the head node has, and by Slurm each of its jobs.
write_environment() {
    local server path=$home/checkout/.venv/bin:$envs/base/bin
    for server in "${servers[@]}"; do path=$path:$envs/$server/bin; done
    cat >"$etc/profile.d/storewise.sh" <<ENVIRONMENT
export PATH="$path:\$PATH"
export JAVA_HOME="$envs/base"
export STOREWISE_CASSANDRA_HOME="$home/stores/cassandra"
export STOREWISE_HBASE_HOME="$home/stores/hbase"
ENVIRONMENT
}

case $role in
    head)
        [ $# -eq 2 ] || fail "usage: bootstrap.sh head SOURCE"
        export PATH="$envs/base/bin:$PATH"
        mkdir -p "$home"
        raise_limits
        install_conda
        make_environment base 'python=3.12' 'openjdk=17' maven make git awscli fasta3 ||
            fail "an environment could not be made; what conda said is above; run again"
        install_storewise "$2"
        install_servers
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
