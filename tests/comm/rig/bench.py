"""What the tests and the measurements on test hosts run there, and the limits of a line."""

import json
import pathlib

from harness import program
from hosts import FRAME, SEGMENT

UNITS = {"gbit": 1e9, "mbit": 1e6}


def bits_per_second(rate):
    """Of what tc calls "200mbit"."""
    for unit, factor in UNITS.items():
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor
    raise ValueError(f"rate {rate}: write it as 1gbit or 200mbit")


def bytes_of_node(size, nodes):
    """The least that leaves a node for one all-reduce of `size` bytes."""
    return 2 * size * (nodes - 1) / nodes


def line_seconds(size, nodes, rate):
    """How long a link takes for that, in frames of Ethernet."""
    return bytes_of_node(size, nodes) * FRAME / SEGMENT * 8 / bits_per_second(rate)


def all_reduces(run, folder, sizes, how, what, inter="ring", wire="fp32", file=None):
    """Sums fp32 with gpt_bench comm; seconds of each repetition of the last size, by the implementation's name.
    @param run    starts a command on the hosts and raises if it fails
    @param sizes  as gpt_bench writes them: 32M,128M
    @param file   what it shall write, for gpt_bench model; else one in `folder`
    """
    file = file or pathlib.Path(folder) / "comm.json"
    ways = ["--what", what, "--inter", inter, "--wire", wire]
    run([program("gpt_bench"), "comm", "--sizes", sizes, "--place", "in", "--json", file, *ways, *how])
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    wrong = sum(result["wrong"] for result in results)
    if wrong:
        raise AssertionError(f"{wrong} sums are wrong")
    return {result["implementation"]: result["times_s"] for result in results}


def scaling(run, folder, ranks, micro_batch, how, file=None):
    """Weak scaling of --preset char with gpt_bench scaling: the points of its file, one for each rank count."""
    file = file or pathlib.Path(folder) / "scaling.json"
    words = ["--kind", "weak", "--preset", "char", "--vocab", 65, "--context", 256, "--micro-batch", micro_batch]
    words += ["--ranks", ",".join(map(str, ranks)), "--reduction", "hierarchical", "--json", file]
    run([program("gpt_bench"), "scaling", *words, *how])
    return json.loads(file.read_text(encoding="utf-8"))["points"]
