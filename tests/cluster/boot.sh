#!/bin/bash
# Boot one machine of a cluster; run by machines.py in the cluster's network namespace and a mount namespace of its own.
# usage: boot.sh CLUSTER HOST CGROUP
set -eu
name=$1 host=$2 cgroup=$3
top=/run/xce-vcluster
state=$top/$name
disk=$state/disk
new=$top/.run.$name

echo $$ >"$cgroup/cgroup.procs"

# Let go of what belongs to other clusters, or it would stay in use here after their end.
while read -r _ _ _ _ point _; do
    case $point in
    "$state"/disk) ;;
    "$top"/*) umount -n -l "$point" 2>/dev/null || true ;;
    esac
done </proc/self/mountinfo

# nspawn keeps notes in /run by machine name, and names are those of the cluster: give it a /run of its own.
mkdir -p "$new"
mount -n -t tmpfs -o mode=0755 tmpfs "$new"
mkdir -p "$new/xce-vcluster/$name"
mount -n --rbind "$state" "$new/xce-vcluster/$name"
cd /
mount -n --move "$new" /run

# A killed machine's overlay may be there for a moment more.
for _ in $(seq 100); do
    if mount -n -t overlay "xce-$host" \
        -o "lowerdir=$disk/base:/,upperdir=$disk/$host/upper,workdir=$disk/$host/work" "$disk/$host/root" 2>/run/why; then
        break
    fi
    sleep 0.1
done
mountpoint -q "$disk/$host/root" || {
    cat /run/why >&2
    exit 1
}

# What a package does when it is installed.
if ls "$disk/$host/root/usr/lib/sysusers.d/"xce*.conf >/dev/null 2>&1; then
    systemd-sysusers --root="$disk/$host/root"
    # Its key is for leased, and for nobody else.
    group=$(sed -n 's/^xce-leased:[^:]*:\([0-9]*\):.*/\1/p' "$disk/$host/root/etc/group")
    for key in "$disk/$host/root"/etc/xce/c[0-9].key; do
        [ ! -f "$key" ] || { chown "0:$group" "$key" && chmod 0640 "$key"; }
    done
fi

# Where leased users come in and where not.
if [ -f "$disk/$host/root/usr/share/pam-configs/xce" ] && ! grep -qs pam_xce "$disk/$host/root/etc/pam.d/common-account" &&
    [ -x "$disk/$host/root/usr/sbin/pam-auth-update" ]; then
    DEBIAN_FRONTEND=noninteractive chroot "$disk/$host/root" pam-auth-update --package </dev/null ||
        echo "$host: pam_xce is not in /etc/pam.d/common-*" >&2
fi

export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --register=no --keep-unit -q -M "$host" -D "$disk/$host/root" \
    --network-bridge=br0 --bind="$disk/shared:/shared" --system-call-filter=@keyring \
    --resolv-conf=off --timezone=off --link-journal=no --console=read-only --kill-signal=SIGRTMIN+3 \
    --boot systemd.unified_cgroup_hierarchy=1 systemd.unit=multi-user.target
