#!/bin/bash
# Two ways to be full while df shows room: a quota (btrfs here) and no free inodes (ext4).
# Root; two image files of at most 200 MB in a scratch folder; mounts in a namespace of its own:
#     unshare --mount bash full.sh >full.txt 2>&1
set -u
work=$(mktemp -d) && cd "$work" && mkdir place
export LC_ALL=C

echo '## quota'
truncate -s 200M quota.img && mkfs.btrfs -q quota.img >/dev/null 2>&1
mount -o loop quota.img place
btrfs quota enable place && btrfs subvolume create place/home >/dev/null
btrfs qgroup limit 16M place/home
python3 - <<'PY'
with open("place/home/checkpoint.pt", "wb", buffering=0) as file:
    try:
        for mib in range(64):
            file.write(bytes(2**20))
    except OSError as error:
        print(f"after {mib} MiB: {type(error).__name__}: {error}")
PY
cp /bin/true place/home/another
df -h --output=size,used,avail,pcent place/home
umount place

echo '## inodes'
truncate -s 64M inodes.img && mkfs.ext4 -q -N 512 inodes.img
mount -o loop inodes.img place
for number in $(seq 600); do touch "place/$number" || break; done
df -h --output=size,used,avail,pcent place
df --output=itotal,iused,iavail,ipcent place
umount place
cd / && rm -r "$work"
