#pragma once

#include "comm/comm.hpp"
#include "train/options.hpp"

#include <optional>
#include <string>

namespace gpt {

/// What --reduction, --inter, --wire and --zero ask of the communicator.
/// @throws Error(usage) for names that say nothing, auto among them: somebody has to choose before
CommPlan comm_plan(const TrainOptions& options);

/// Whether `options` can sum between so many nodes; known before any communicator is made.
/// @throws Error(usage) naming the option that cannot
void validate_sums_between(const TrainOptions& options, int nodes);

/// Whether no way between nodes is to be chosen: what is rounded there goes straight to its owner. Parameters
/// are not rounded, and with --zero 1 they travel between nodes.
bool all_goes_direct(const TrainOptions& options);

/// A line for the log if --inter names a way that no gradients take: there is nobody between nodes, or the
/// other options send them elsewhere. Nothing where it is auto.
/// @param heeds_inter  CommSession::heeds_inter
std::optional<std::string> idle_inter_notice(const TrainOptions& options, int nodes, bool heeds_inter);

}  // namespace gpt
