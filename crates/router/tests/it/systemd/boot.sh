#!/bin/sh
# Makes a root of its own out of this system's /usr, and becomes systemd as its first process.
#
#   boot.sh DIRECTORY PROGRAM UNITS
#
# DIRECTORY is empty and the test's own; PROGRAM becomes /usr/bin/vcp-router, and UNITS is the
# directory with its units. To be run as root in namespaces of its own: processes, mounts, network,
# host name, IPC and cgroups.
set -eu
dir=$1 program=$2 units=$3

mount --make-rprivate /
mkdir -p "$dir/program/bin" "$dir/root"
cp "$program" "$dir/program/bin/vcp-router"
mount -t tmpfs -o mode=755 root "$dir/root"
cd "$dir/root"
mkdir -p usr etc/systemd/system proc sys dev run tmp var/lib var/log root old
mount -t overlay -o "ro,lowerdir=$dir/program:/usr" usr usr
for link in bin sbin lib lib64; do
    [ ! -e "/$link" ] || ln -s "usr/$link" "$link"
done

# As containers have it: of the kernel's settings only those of the network can be changed.
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sys sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs run run
mount -t tmpfs -o mode=755 dev dev
mkdir dev/net dev/shm dev/pts
for node in null zero full random urandom tty; do
    touch "dev/$node"
    mount --bind "/dev/$node" "dev/$node"
done
# As udev makes it: whoever owns an interface may open it.
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666 pts dev/pts
ln -s pts/ptmx dev/ptmx

# What the package's installation would have made, an operator, and somebody who is none.
cat > etc/passwd <<'END'
root:x:0:0::/root:/bin/sh
vcp-router:x:901:901::/nonexistent:/usr/sbin/nologin
operator:x:902:902::/nonexistent:/bin/sh
stranger:x:903:903::/nonexistent:/bin/sh
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
END
cat > etc/group <<'END'
root:x:0:
vcp-router:x:901:operator
operator:x:902:
stranger:x:903:
nogroup:x:65534:
END
printf 'passwd: files\ngroup: files\n' > etc/nsswitch.conf
echo 0123456789abcdef0123456789abcdef > etc/machine-id
cp /etc/ld.so.cache etc/
cp "$units"/*.service "$units"/*.path etc/systemd/system/
mkdir etc/systemd/networkd.conf.d
cp "$units/networkd.conf" etc/systemd/networkd.conf.d/10-vcp-router.conf
cp "$units/vcp-router.toml" etc/
# No more than what units stand on, and what they are wanted by.
cat > etc/systemd/system/test.target <<'END'
[Unit]
Requires=basic.target
Wants=multi-user.target
After=basic.target
END
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' > etc/systemd/system/multi-user.target
# What this system's packages bring along is none of the test's business.
for unit in systemd-sysusers systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-update-utmp \
    systemd-timesyncd systemd-logind dbus; do
    ln -s /dev/null "etc/systemd/system/$unit.service"
done
ln -s /dev/null etc/systemd/system/dbus.socket

# An address to ask the router from.
ip link set dev lo up
ip address add 10.0.1.1/32 dev lo

pivot_root . old
umount -l old
# Not what reaches beyond namespaces: clock, modules, kernel log, hardware.
exec env -i container=test PATH=/usr/sbin:/usr/bin setpriv \
    --bounding-set=-sys_time,-sys_module,-syslog,-sys_rawio,-wake_alarm,-mac_admin,-mac_override \
    /lib/systemd/systemd --system --unit=test.target
