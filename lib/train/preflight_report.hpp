#pragma once

#include "base/exit_code.hpp"
#include "train/preflight_clock.hpp"
#include "train/preflight_finding.hpp"
#include "train/preflight_gpu.hpp"
#include "train/preflight_network.hpp"
#include "train/preflight_space.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt {

/// A row of the table.
struct NodeReport {
  std::string name;        ///< as the batch system calls the node
  std::vector<int> ranks;  ///< in the world
  ClockReading clock;
  int64_t memory = 0;  ///< bytes that are available, by what knows the tightest limit
  Space run;           ///< file system of the run folder
  Space shared;        ///< and of shared memory
  std::vector<GpuLook> gpus;
  NodeBandwidth bandwidth;
};

struct PreflightReport {
  std::vector<NodeReport> nodes;
  bool complete = true;  ///< false: nothing is known of nodes but their names and ranks
  Findings findings;
  std::vector<std::string> warnings;

  ExitCode code() const { return findings.empty() ? ExitCode::finished : ExitCode::preflight; }
};

/// For people: a line for each node under a heading, if the report is complete, then what is wrong.
std::vector<std::string> lines_of(const PreflightReport& report);

/// What leads the line that scripts read.
inline constexpr const char* preflight_mark = "preflight: ";

/// That line: the mark and one JSON object (docs/preflight.md).
std::string machine_line(const PreflightReport& report);

/// The same where there is no report, because a node does not answer or the check itself failed on one.
/// @param node  its name; nothing: no node is to blame
std::string machine_line(const std::optional<std::string>& node, const std::string& check,
                         const std::string& reason);

}  // namespace gpt
