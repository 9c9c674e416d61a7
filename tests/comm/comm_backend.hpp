#pragma once

#include "comm/comm_session.hpp"
#include "device/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpt::test {

// What a test program of the Comm contract tries it on; each program has one definition of these.

/// Where data lies. Made at the first call.
Device& device();

/// Whether the host reads and writes it as it is.
bool lies_in_host_memory();

std::unique_ptr<CommSession> make_session(const World& world);

struct NamedPlan {
  std::string name;
  CommPlan plan;
};

constexpr int64_t small_blocks = 4096;

/// Every way of summing that a layout of `nodes` nodes allows, with blocks so small that many are under way.
std::vector<NamedPlan> plans_for(int nodes);

}  // namespace gpt::test
