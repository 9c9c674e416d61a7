#pragma once

#include "comm/comm.hpp"
#include "comm/comm_session.hpp"
#include "comm/world.hpp"
#include "device/device.hpp"
#include "train/console.hpp"
#include "train/memory.hpp"
#include "train/preparation.hpp"
#include "train/threads.hpp"

#include <optional>
#include <string>

namespace gpt {

/// Ranks, nodes, cores and threads, and what is odd about them. Collective.
void announce_ranks(Console& console, const World& world, const ThreadChoice& threads, const Device& device);

/// What to be warned of where the device has no instructions for matrix products of that type.
std::optional<std::string> precision_warning(DType type, const Device& device);

/// The same, said.
void announce_precision(Console& console, const TrainOptions& options, const Device& device);

/// How sums are formed, once what is summed is allocated.
void announce_sums(Console& console, const World& world, const TrainOptions& options,
                   const CommSession& session, const Comm& comm);

/// Model, data, batch, learning rate, who reads what, and where the run begins. Collective.
void announce_run(Console& console, const World& world, const PreparedRun& run);

/// With --attention cudnn, whose kernels compute attention, and why where they are our own. Makes what cuDNN
/// needs. Collective.
void announce_attention(Console& console, const World& world, const PreparedRun& run, Device& device);

/// What each rank has allocated or is going to, with the options that decide about it. Returns, on every
/// rank, the largest of these. Collective.
MemoryEstimate announce_memory(Console& console, const World& world, const TrainOptions& options,
                               const MemoryEstimate& mine, int64_t parameters);

/// The most memory that a rank has had, and which rank. Returns it. Collective.
int64_t announce_peak(Console& console, const World& world, int64_t parameters);

}  // namespace gpt
