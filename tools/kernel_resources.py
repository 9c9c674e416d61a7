#!/usr/bin/env python3
"""kernel_resources.py LIBRARY [--capability 9.0]: registers, shared memory, spills and occupancy of our CUDA kernels.

LIBRARY is a build's libgpt_device.a, made with -DGPT_CUDA=ON. Reads it with cuobjdump, of the CUDA toolkit. Threads of a
block stand in docs/gpus.md, whose table of kernels this checks: a kernel that is missing there, or that keeps registers in
memory (spills) without standing in SPILLS below, is an error.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "gpus.md"
# Bytes a thread that may spill, and why it does not matter.
SPILLS = {"causal_softmax_kernel": 8}  # contexts that are odd: no model that is trained for speed
# CUDA C++ Programming Guide, technical specifications: threads, registers, shared memory and blocks of a multiprocessor.
LIMITS = {"8.0": (2048, 65536, 164 << 10, 32), "9.0": (2048, 65536, 228 << 10, 32), "10.0": (2048, 65536, 228 << 10, 32)}
RESERVED_SHARED = 1 << 10  # bytes of a block that CUDA takes itself


def resources(library, capability):
    """kernel -> list of (registers, static shared bytes, spilled bytes), one for each of its forms."""
    tool = shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump"
    architecture = "sm_" + capability.replace(".", "")
    text = subprocess.run(
        [tool, "--dump-resource-usage", "--gpu-architecture", architecture, library], check=True, text=True,
        capture_output=True,
    ).stdout  # fmt: skip
    found = {}
    for symbol, usage in re.findall(r"Function (\S+):\s*\n\s*(REG:\S.*)", text):
        # In an anonymous namespace: …_GLOBAL__N__HASH_FILE_HASH<length>NAME…, and NAME ends in _kernel.
        name = re.search(r"\d+([a-z][a-z_]*_kernel)", symbol)
        numbers = dict(re.findall(r"(\w+):(\d+)", usage))
        if name is None:
            sys.exit(f"kernel_resources: {symbol} is no kernel of ours: they end in _kernel")
        spilled = int(numbers["STACK"]) + int(numbers.get("LOCAL", 0))
        found.setdefault(name[1], []).append((int(numbers["REG"]), int(numbers["SHARED"]), spilled))
    return found


def documented_threads():
    """kernel -> the threads of its blocks as docs/gpus.md says, at most."""
    threads = {}
    for row in re.findall(r"(?m)^\| (`\w+_kernel`.*?) \| ([^|]*) \|", DOCS.read_text(encoding="utf-8")):
        for name in re.findall(r"`(\w+_kernel)`", row[0]):
            threads[name] = max(map(int, re.findall(r"\d+", row[1])))
    return threads


def occupancy(threads, registers, shared, capability):
    """Share of a multiprocessor's threads that are there at once, without dynamic shared memory."""
    most_threads, most_registers, most_shared, most_blocks = LIMITS[capability]
    per_warp = -(-registers * 32 // 256) * 256  # registers are given to warps, 256 at a time
    warps = most_registers // per_warp
    blocks = min(
        most_blocks, most_threads // threads, warps // (threads // 32), most_shared // (shared + RESERVED_SHARED)
    )
    return blocks * threads / most_threads


def spread(values):
    return f"{min(values)}–{max(values)}" if min(values) < max(values) else str(min(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--capability", default="9.0", choices=sorted(LIMITS))
    arguments = parser.parse_args()
    found = resources(arguments.library, arguments.capability)
    if not found:
        sys.exit(f"kernel_resources: {arguments.library} has no kernels for compute capability {arguments.capability}")
    threads, wrong = documented_threads(), []
    print("| kernel | threads | registers | shared | occupancy |\n| --- | --- | --- | --- | --- |")
    for name, forms in sorted(found.items()):
        if name not in threads:
            wrong.append(f"{name} is missing in the table of kernels of {DOCS.name}")
            continue
        spilled = max(form[2] for form in forms)
        if spilled > SPILLS.get(name, 0):
            wrong.append(f"{name} keeps {spilled} bytes of registers in memory")
        shares = [round(100 * occupancy(threads[name], form[0], form[1], arguments.capability)) for form in forms]
        print(
            f"| `{name}` | {threads[name]} | {spread([form[0] for form in forms])} | {spread([form[1] for form in forms])} "
            f"| {spread(shares)} % |"
        )
    for name in sorted(set(threads) - set(found)):
        wrong.append(f"{name} of {DOCS.name} is in no library")
    for line in wrong:
        print(f"kernel_resources: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
