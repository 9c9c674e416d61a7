#!/usr/bin/env python3
"""Which mistakes in the CUDA backend do the tests on its stand-in see? docs/gpus.md, "Mutations".

Each mutation of mutations.py is made in a private copy of the sources, built, and tested until a test fails: a long
search, shorter with ccache (CMAKE_CXX_COMPILER_LAUNCHER=ccache, CCACHE_BASEDIR). Exit code 1: one was missed that has no
explanation, or did not compile.
"""

import argparse
import pathlib
import sys

from mutations import MUTATIONS
from suite import SYSTEM, Copy, Suite

TOP = pathlib.Path(__file__).resolve().parents[3]


def mutated(copy, mutation):
    text = copy.read(mutation.file)
    if (count := text.count(mutation.old)) != 1:
        raise SystemExit(f"{mutation.file} has this {count} times, not once:\n{mutation.old}")
    return text.replace(mutation.old, mutation.new)


def tests_for(suite, mutation):
    """The likely one first. Tests of the device alone see nothing of what is built on it."""
    begins = ("cuda.nccl", SYSTEM) if mutation.file.startswith("lib/comm") else ""
    likely = [mutation.near] if mutation.near else []
    return likely + [test for test in suite.tests if test.startswith(begins) and test not in likely]


def try_out(suite, mutation):
    """Whether it was caught, and by what; None if it does not compile."""
    for test in tests_for(suite, mutation):
        if error := suite.build_error(test):
            return None, f"DOES NOT COMPILE: {error}"
        if reason := suite.failure(test):
            return True, f"{test}: {reason}"
    return False, f"MISSED{': ' + mutation.unseen if mutation.unseen else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="these mutations alone, by number")
    parser.add_argument("--jobs", type=int, default=2, help="compile jobs (2)")
    parser.add_argument("--build-dir", type=pathlib.Path, default=TOP / "build-mutations",
                        help="where the copy of the sources and its build go, and stay (build-mutations)")  # fmt: skip
    parser.add_argument("--no-system", dest="system", action="store_false",
                        help="leave out what trains with the built programs")  # fmt: skip
    given = parser.parse_args()

    copy = Copy(TOP, given.build_dir / "source")
    texts = [mutated(copy, mutation) for mutation in MUTATIONS]  # the whole list fits before anything is built
    suite = Suite(copy.folder, given.build_dir / "build", given.jobs, given.system)
    print("Without mutations:", flush=True)
    suite.check()
    caught, failed = 0, []
    numbers = given.only or range(1, len(MUTATIONS) + 1)
    for number in numbers:
        mutation = MUTATIONS[number - 1]
        original = copy.read(mutation.file)
        copy.write(mutation.file, texts[number - 1])
        try:
            seen, verdict = try_out(suite, mutation)
        finally:
            copy.write(mutation.file, original)
        print(f"{number:3}  {mutation.file.removeprefix('lib/'):34}  {mutation.what}\n     {verdict}", flush=True)
        caught += seen is True
        if not seen and (seen is None or not mutation.unseen):
            failed.append(number)
    explained = len(numbers) - caught - len(failed)
    print(f"{len(numbers)} mutations: {caught} caught, {explained} missed and explained, {len(failed)} not: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
