#!/usr/bin/env python3
"""Measurements on test hosts, against what communication has to reach: docs/testing-hosts.md.

Nothing else should run on the machine meanwhile: all hosts share its cores. Exit code 1: a bar was not reached.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import sys
import tempfile

import on_hosts  # noqa: F401  (finds the harness)
import measure_model
import measure_overlap
import measure_times
from hosts import Hosts, Overtime, Unavailable

KINDS = {"times": measure_times, "overlap": measure_overlap, "model": measure_model}


class Report:
    """Rows and bars, printed as they come and kept for the file."""

    def __init__(self, folder, tcp_links, timeout):
        self.folder, self.tcp_links, self.timeout = folder, tcp_links, timeout
        self.rows, self.bars = {}, []

    def succeed(self, hosts, command, mca=None, **how):
        done = hosts.run(command, mca={"btl_tcp_links": self.tcp_links} | (mca or {}), timeout=self.timeout, **how)
        if done.code != 0:
            raise AssertionError(str(done))
        return done

    def row(self, table, values):
        self.rows.setdefault(table, []).append(values)
        print("  ".join(f"{name} {_text(value)}" for name, value in values.items()), flush=True)

    def bar(self, name, case, value, at_most=None, at_least=None):
        passed = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
        limit = f"<= {at_most}" if at_most is not None else f">= {at_least}"
        self.bars.append({"bar": name, "case": case, "value": value, "limit": limit, "passed": passed})
        what = " ".join(map(str, case.values()))
        print(f"{'pass' if passed else 'FAIL'}  {name}  {what}: {value:.3f}, has to be {limit}", flush=True)

    def json(self):
        return {"tcp_links": self.tcp_links, "rows": self.rows, "bars": self.bars}


def _text(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, module in KINDS.items():
        first_line = module.__doc__.partition("\n")[0]
        sub = kinds.add_parser(kind, help=first_line, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        module.add_options(sub)
        sub.add_argument("--tcp-links", type=int, default=2, help="btl_tcp_links of Open MPI, for it and for us")
        sub.add_argument("--timeout", type=float, default=1200, help="seconds, of one job")
        sub.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    report = Report(pathlib.Path(tempfile.mkdtemp(prefix="gpt-measure-")), options.tcp_links, options.timeout)
    try:
        KINDS[options.kind].measure(Hosts, report, options)
    except (Unavailable, Overtime, AssertionError) as problem:
        print(f"measure.py: {problem}", file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(report.folder)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report.json(), indent=1) + "\n", encoding="utf-8")
    failed = sum(not bar["passed"] for bar in report.bars)
    print(f"{len(report.bars) - failed} of {len(report.bars)} bars passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
