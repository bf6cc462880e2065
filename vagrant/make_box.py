"""Makes a Vagrant box from packages, for machines that cannot fetch one from a box host.

    python vagrant/make_box.py --kernel 6.12 build/out/vm/lbtrace-6.12.box

Needs root and debootstrap. The box has no boot loader: libvirt boots the
kernel that lies in it beside the disk.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "vm"))

from cache import OUT  # noqa: E402
from image import make_image  # noqa: E402
from interpreter import USERLAND  # noqa: E402
from kernels import KERNELS  # noqa: E402
from packages import KEYRING, mirror  # noqa: E402
from stage import stage_kernel  # noqa: E402

PACKAGES = [
    *("binutils", "dbus", "iproute2", "openssh-server", "procps", "python3-venv", "rsync", "sudo"),
    *("systemd-sysv", "udev", "libstdc++6"),
]
FREE = 2 << 30
"""Bytes left free on the disk."""

NETWORK = "[Match]\nType=ether\n\n[Network]\nDHCP=ipv4\n"

VAGRANTFILE = """\
Vagrant.configure("2") do |config|
  config.vm.provider :libvirt do |libvirt|
    libvirt.kernel = File.join(__dir__, "vmlinuz")
    libvirt.initrd = File.join(__dir__, "initrd")
    libvirt.cmd_line = "console=ttyS0 net.ifnames=0 quiet"
  end
end
"""


def make_system(tree: Path) -> None:
    """Install a system with the user ``vagrant`` into the directory ``tree``."""
    subprocess.run(
        [
            *("debootstrap", "--variant=minbase", f"--keyring={KEYRING}"),
            *(f"--include={','.join(PACKAGES)}", USERLAND, str(tree), mirror()),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for command in (
        ["useradd", "--create-home", "--shell", "/bin/bash", "vagrant"],
        ["systemctl", "enable", "systemd-networkd", "ssh"],
        ["apt-get", "clean"],
    ):
        subprocess.run(["chroot", str(tree), *command], check=True)
    (tree / "etc/sudoers.d/vagrant").write_text("vagrant ALL=(ALL) NOPASSWD: ALL\n")
    (tree / "etc/systemd/network/80-dhcp.network").write_text(NETWORK)
    (tree / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 0\n")
    keys = tree / "home/vagrant/.ssh"
    keys.mkdir(mode=0o700)
    (keys / "authorized_keys").write_bytes(_public_key())
    subprocess.run(["chroot", str(tree), "chown", "-R", "vagrant:", "/home/vagrant"], check=True)


def make_box(kernel: str, box: Path) -> None:
    """Write ``box`` with a system of packages and the kernel named ``kernel``."""
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=OUT) as directory:
        work, content = Path(directory), Path(directory, "content")
        content.mkdir()
        make_system(work / "tree")
        disk = work / "disk.ext4"
        make_image(work / "tree", disk, "root", FREE)
        size = -(-disk.stat().st_size // (1 << 30))
        subprocess.run(
            ["qemu-img", "convert", "-c", "-O", "qcow2", disk, content / "box.img"], check=True
        )
        stage_kernel(KERNELS[kernel], content)
        metadata = {"provider": "libvirt", "format": "qcow2", "virtual_size": size}
        (content / "metadata.json").write_text(json.dumps(metadata))
        (content / "Vagrantfile").write_text(VAGRANTFILE)
        box.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(box, "w") as archive:
            for file in sorted(content.iterdir()):
                archive.add(file, file.name)


def _public_key() -> bytes:
    """The key that Vagrant logs in with first, and replaces by one of its own."""
    found = subprocess.run(["dpkg", "-L", "vagrant"], check=True, capture_output=True, text=True)
    (key,) = (line for line in found.stdout.splitlines() if line.endswith("/keys/vagrant.pub"))
    return Path(key).read_bytes()


def main() -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--kernel", choices=KERNELS, default="6.12")
    parser.add_argument("box", type=Path)
    options = parser.parse_args()
    for tool in ("debootstrap", "qemu-img", "vagrant"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed")
    make_box(options.kernel, options.box)
    return 0


if __name__ == "__main__":
    sys.exit(main())
