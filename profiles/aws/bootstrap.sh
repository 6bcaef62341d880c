#!/bin/bash
# What ParallelCluster runs on each instance of cluster.yaml when it has set it up (as root):
#   bootstrap.sh head SOURCE REGION   once: Storewise, its engines and what they need, on /shared
#   bootstrap.sh compute              each database node and worker: its disk and its limits
# SOURCE is an archive of the checkout (README.md makes it with `git archive`), s3://... or a file.
# Run again by hand, `head` goes on where it was interrupted. Servers are the newest that there are;
# reports name their versions. What it says is in /var/log/storewise-bootstrap.log, too:
# ParallelCluster drops what a script of the head node writes to its standard error.
set -euo pipefail

role=${1:-}
shared=${STOREWISE_SHARED:-/shared}
scratch=${STOREWISE_SCRATCH:-/scratch}
disks=${STOREWISE_DISKS:-/dev/disk/by-id}
etc=${STOREWISE_ETC:-/etc}
log=${STOREWISE_LOG:-/var/log/storewise-bootstrap.log}
user=${STOREWISE_USER:-ubuntu}
home=$shared/storewise
conda=$home/conda
envs=$home/envs
servers=(postgresql mysql-server mongodb)
exec > >(tee -a "$log") 2> >(tee -a "$log" >&2)

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
    mkdir -p "$scratch"
    # ParallelCluster has mounted the instance's own disks there, where it has any. Without them
    # servers would be measured on the root volume, and fill it.
    if compgen -G "$disks/nvme*Instance_Storage*" >/dev/null && ! mountpoint --quiet "$scratch"; then
        fail "this instance has disks of its own, but they are not mounted at $scratch; is that the" \
            "queue's LocalStorage: EphemeralVolume: MountDir in cluster.yaml?"
    fi
    chmod 1777 "$scratch"
    findmnt --noheadings --output SOURCE,FSTYPE,SIZE --target "$scratch"
}

install_conda() {
    if [ -e "$conda/.made" ]; then return; fi
    local aside
    aside=$(mktemp -d)
    say "fetching $installer"
    (
        cd "$aside"
        curl --fail --silent --show-error --location --retry 5 --remote-name "$miniforge/$installer"
        curl --fail --silent --show-error --location --retry 5 --remote-name "$miniforge/$installer.sha256"
        sha256sum --check --status "$installer.sha256"
    ) || fail "$installer could not be fetched, or is not what its checksum says; run again"
    rm -rf "$conda"
    bash "$aside/$installer" -b -p "$conda" >/dev/null || fail "$installer failed; run again"
    touch "$conda/.made"
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
    make --directory "$home/checkout" PYTHON="$envs/base/bin/python" env ||
        fail "Storewise could not be installed; what make said is above; run again"
    # Optional: Maven may not reach its repository, and the other engines work without.
    JAVA_HOME=$envs/base make --directory "$home/checkout" STORES="$home/stores" cassandra hbase ||
        say "no Cassandra and no HBase: make -C $home/checkout STORES=$home/stores cassandra hbase"
}

# What a session on the head node has, and by Slurm each of its jobs. boto3 takes the region from
# nowhere else, and would go round by another one.
write_environment() {
    local server path=$home/checkout/.venv/bin:$envs/base/bin
    for server in "${servers[@]}"; do path=$path:$envs/$server/bin; done
    cat >"$etc/profile.d/storewise.sh" <<ENVIRONMENT
export PATH="$path:\$PATH"
export JAVA_HOME="$envs/base"
export AWS_DEFAULT_REGION="$1"
export STOREWISE_CASSANDRA_HOME="$home/stores/cassandra"
export STOREWISE_HBASE_HOME="$home/stores/hbase"
ENVIRONMENT
}

case $role in
    head)
        [ $# -eq 3 ] || fail "usage: bootstrap.sh head SOURCE REGION"
        export PATH="$envs/base/bin:$PATH" AWS_DEFAULT_REGION=$3 HOME=${HOME:-/root}
        mkdir -p "$home"
        raise_limits
        install_conda
        make_environment base 'python=3.12' 'openjdk=17' maven make git awscli fasta3 ||
            fail "an environment could not be made; what conda said is above; run again"
        install_storewise "$2"
        install_servers
        write_environment "$3"
        mkdir -p "$shared/studies"
        chown -R "$user:$user" "$home" "$shared/studies"
        ;;
    compute)
        raise_limits
        prepare_scratch
        ;;
    *) fail "usage: bootstrap.sh head SOURCE REGION | bootstrap.sh compute" ;;
esac
say "done"
