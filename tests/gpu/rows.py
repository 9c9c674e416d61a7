"""rows.py step FILE TARGET | log FILE: figures as rows of check.sh's table, what|figure|target|verdict.

step: what gpt_bench step --json wrote of a step on a GPU. TARGET: percent of MFU that an H100 or H200 has to reach; 0
and other GPUs: it is told and not judged.
log: log.jsonl of a training on GPUs.
"""

import json
import re
import sys


def row(what, figure, target="", passed=True):
    print(f"{what}|{figure}|{target}|{'passed' if passed else 'failed'}")


def rate(operations, amount, unit, scale):
    """Of all of them together: amount a second, and the share of the bound."""
    seconds = sum(one["seconds"] for one in operations)
    bound = sum(one["bound_s"] for one in operations)
    if seconds <= 0:
        return None
    done = sum(one[amount] for one in operations)
    return f"{done / seconds / scale:.4g} {unit}, {100 * bound / seconds:.3g} % of peak"


def rows_of_step(file, target):
    with open(file, encoding="utf-8") as text:
        figures = json.load(text)
    own, used, found = figures["gpt_mpi"], figures["gpu"], figures["operators"]
    title = f"{figures['preset']}, {figures['global_batch']} x {figures['context']}, {figures['precision']}"
    row(title, f"{1e3 * own['median_s']:.1f} ms a step, least {1e3 * own['least_s']:.1f}")
    row("tokens a second", f"{figures['tokens'] / own['median_s']:.0f}")
    row("GPU memory in use", f"{own['peak_bytes'] / 2**30:.2f} GiB", passed=own["peak_bytes"] > 0)
    judged = target > 0 and used["documented"] and re.search(r"\bH[12]00\b", used["name"])
    how = "documented" if used["documented"] else "measured"
    row(
        "MFU",
        f"{100 * used['mfu']:.1f} % of {used['peak_flops'] / 1e12:.4g} TFLOP/s, {how}",
        f"{target:g} % or more" if judged else "",
        used["mfu"] > 0 and (not judged or 100 * used["mfu"] >= target),
    )
    for what, pattern, amount, unit, scale in (
        ("matrix products", r"linear\b", "flops", "TFLOP/s", 1e12),
        ("attention, forward", r"attention$", "flops", "TFLOP/s", 1e12),
        ("attention, backward", r"attention backward$", "flops", "TFLOP/s", 1e12),
        ("classifier with its backward", r"classifier and", "flops", "TFLOP/s", 1e12),
        ("norms", r"add and norm", "bytes", "GB/s", 1e9),
        ("AdamW", r"AdamW$", "bytes", "GB/s", 1e9),
    ):
        matching = [one for one in found["operations"] if re.match(pattern, one["operation"])]
        told = rate(matching, amount, unit, scale)
        row(what, told or "not timed", passed=told is not None)
    row("between operations", f"{1e3 * found['between_s']:.3g} ms of {1e3 * found['step_s']:.4g}")
    row("bound of a step", f"{1e3 * found['bound_s']:.4g} ms, {100 * found['of_bound']:.3g} % of the least step")


def rows_of_log(file):
    with open(file, encoding="utf-8") as lines:
        steps = [event for event in map(json.loads, lines) if event["event"] == "step"]
    last = {key: value for event in steps for key, value in event.items()}
    for what, key, text in (
        ("GPU memory, by its driver", "gpu_memory_bytes", lambda value: f"{value / 2**30:.2f} GiB"),
        ("power", "gpu_watts", lambda value: f"{value:.0f} W"),
        ("temperature", "gpu_celsius", lambda value: f"{value} °C"),
        ("clock", "gpu_sm_mhz", lambda value: f"{value} MHz"),
    ):
        row(what, text(last[key]) if key in last else "not in log.jsonl", passed=key in last)
    row("MFU in log.jsonl", f"{100 * last['mfu']:.3g} %" if "mfu" in last else "none: the GPU's peak is not known")


if __name__ == "__main__":
    if sys.argv[1] == "step":
        rows_of_step(sys.argv[2], float(sys.argv[3]))
    else:
        rows_of_log(sys.argv[2])
