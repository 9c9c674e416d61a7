#include "comm/nccl/nccl_settings.hpp"

#include "comm/nccl/nccl_error.hpp"
#include "comm/nccl_session.hpp"
#include "device/cuda/check.hpp"

#include <algorithm>
#include <cstdlib>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

namespace gpt {
namespace {

/// Settings whose value may well be another one on another host.
bool is_of_host(std::string_view name) {
  constexpr std::string_view beginnings[] = {
      "NCCL_DEBUG",      "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",   "NCCL_IB_GID",     "NCCL_IB_ADDR",
      "NCCL_TOPO",       "NCCL_HOSTID",        "NCCL_CONF",     "NCCL_IGNORE_CPU", "NCCL_GRAPH",
      "NCCL_NET_PLUGIN", "NCCL_TUNER",         "NCCL_PROFILER", "NCCL_RAS"};
  return std::ranges::any_of(beginnings, [&](std::string_view one) { return name.starts_with(one); });
}

}  // namespace

std::string loaded_nccl_version() {
  int code = 0;
  check_nccl(ncclGetVersion(&code));
  return nccl_version_text(code);
}

std::string nccl_library_version() {
  return fmt::format("compiled {}, loaded {}", nccl_version_text(NCCL_VERSION_CODE), loaded_nccl_version());
}

Facts nccl_facts() {
  int runtime = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime));
  Facts facts = {{"NCCL", loaded_nccl_version()},
                 {"CUDA runtime", fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10)}};
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    if (name.starts_with("NCCL_") && !is_of_host(name) && name.size() < text.size())
      facts.emplace_back(name, text.substr(name.size() + 1));
  }
  std::ranges::sort(facts);
  return facts;
}

void set_nccl_defaults() {
  // Inside a node and between nodes two communicators are at work at a time: their kernels start in the order
  // in which the host gives them, which is the same on all ranks.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

}  // namespace gpt
