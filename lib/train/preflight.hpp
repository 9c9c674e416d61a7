#pragma once

#include "comm/world.hpp"
#include "train/training.hpp"

namespace gpt {

/// Seconds without progress that end a preflight check: those of --timeout, but at most a minute, and a
/// minute if that never ends a job. It is to take seconds.
double preflight_timeout(double asked);

/// Before run_preflight, as soon as it is known that it comes: a rank that does not answer from now on is
/// told in the line for scripts, by its host, and ends the job with code preflight.
void expect_preflight(const World& world);

/// Looks at all that a run on these ranks will need, in seconds: programs, clocks, memory, disks, dataset,
/// GPUs, sums inside nodes and between them (docs/preflight.md). Says on standard output what it found of
/// each node, which nodes are refused and why, for people and in a line for scripts. Trains nothing and
/// writes nothing. Collective; once per World.
/// @return finished, or preflight if something is refused
/// @throws SharedError for options that no run can have; Error where the check itself fails on this rank
int run_preflight(World& world, const OptionSource& source);

}  // namespace gpt
