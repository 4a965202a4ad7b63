#!/usr/bin/env python3
"""Debian packages, from tools/package to `dpkg -P`, under a real systemd in a root of its own."""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SYSTEMD = "/lib/systemd/systemd"
INSIDE_SECONDS = 600
SKIP = 77

PACKAGES = {"libmooncake-client1", "libmooncake-client-dev", "mooncake-master", "mooncake-store",
            "mooncake-tools", "python3-mooncake"}

# In namespaces of its own. The root is this machine's under an overlay in memory; of its services
# only the journal is left. The systemd there ends with the status of inside.sh.
ROOT_SCRIPT = r"""
set -eu
scratch=$1
mkdir -p "$scratch/memory"
mount -t tmpfs tmpfs "$scratch/memory"
cd "$scratch/memory"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
root=$PWD/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount --bind "$scratch/tmp" "$root/tmp"
rm -rf "$root"/etc/systemd/system/* "$root"/lib/systemd/system/*.target.wants/* \
    "$root"/etc/mooncake
mkdir -p "$root/lib/systemd/system/sysinit.target.wants"
for unit in systemd-journald.service systemd-journald.socket; do
    ln -s "../$unit" "$root/lib/systemd/system/sysinit.target.wants/$unit"
done
cat >"$root/etc/systemd/system/inside.service" <<UNIT
[Unit]
Wants=sysinit.target
After=sysinit.target
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/bash -c '/bin/bash /tmp/inside.sh; echo \$? >/tmp/status'
ExecStopPost=/bin/systemctl --no-block exit 0
StandardOutput=file:/tmp/said
StandardError=inherit
UNIT
ip link set lo up
exec chroot "$root" /usr/bin/env -i container=mooncake-test \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=inside.service
"""


def skip_unless_possible():
    """Says why not, and ends."""
    why = None
    if os.getuid() != 0:
        why = "only root can mount an overlay"
    elif not os.path.exists(SYSTEMD):
        why = f"no {SYSTEMD}"
    elif any(shutil.which(tool) is None for tool in ("dpkg-deb", "cpack", "unshare", "ip")):
        why = "it needs dpkg-deb, cpack, unshare and ip"
    else:
        with open("/proc/filesystems", encoding="ascii") as file:
            if "\toverlay\n" not in file.read():
                why = "the kernel has no overlay file system"
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(SKIP)


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def make_packages(build, out):
    """All six, with what they need named."""
    done = subprocess.run([os.path.join(TOP, "tools", "package"), "--build", build, "--out", out],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"tools/package failed ({done.returncode}):\n{done.stdout}")
    found = set()
    for name in os.listdir(out):
        fields = subprocess.run(["dpkg-deb", "-f", os.path.join(out, name), "Package", "Depends"],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        found.add(fields.split("Package: ")[1].split("\n")[0])
        if "libc6" not in fields and "-dev" not in name:
            sys.exit(f"{name} does not name the libraries it needs:\n{fields}")
    if found != PACKAGES:
        sys.exit(f"tools/package made {sorted(found)}, expected {sorted(PACKAGES)}")


def main():
    skip_unless_possible()
    build = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="mooncake-packages-") as scratch:
        shared = os.path.join(scratch, "tmp")
        os.mkdir(shared, 0o777)
        os.chmod(shared, 0o1777)
        make_packages(build, os.path.join(shared, "packages"))
        shutil.copy(os.path.join(HERE, "inside.sh"), shared)
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--cgroup",
                   "--ipc", "--uts", "sh", "-c", ROOT_SCRIPT, "root", scratch]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, text=True, check=False,
                                  timeout=INSIDE_SECONDS)
            ended = f"systemd ended with {done.returncode}\n{done.stdout}"
        except subprocess.TimeoutExpired:
            ended = f"not done within {INSIDE_SECONDS} s"
        said = read(os.path.join(shared, "said"))
        print(said)
        if read(os.path.join(shared, "status")).strip() != "0":
            sys.exit(ended)


if __name__ == "__main__":
    main()
