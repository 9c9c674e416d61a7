#include "comm/nccl/nccl_settings.hpp"

#include "comm/nccl/nccl_error.hpp"
#include "comm/nccl_session.hpp"
#include "comm/shared_error.hpp"
#include "device/cuda/native.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

namespace gpt {
namespace {

constexpr int version_that_splits = 21800;
constexpr int version_that_keeps_order = 22600;
constexpr const char* launch_order = "NCCL_LAUNCH_ORDER_IMPLICIT";

int loaded_version() {
  int code = 0;
  check_nccl(ncclGetVersion(&code));
  return code;
}

/// Settings whose value may well be another one on another host.
bool is_of_host(std::string_view name) {
  constexpr std::string_view beginnings[] = {
      "NCCL_DEBUG",      "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA",   "NCCL_IB_GID",     "NCCL_IB_ADDR",
      "NCCL_TOPO",       "NCCL_HOSTID",        "NCCL_CONF",     "NCCL_IGNORE_CPU", "NCCL_GRAPH",
      "NCCL_NET_PLUGIN", "NCCL_TUNER",         "NCCL_PROFILER", "NCCL_RAS"};
  return std::ranges::any_of(beginnings, [&](std::string_view one) { return name.starts_with(one); });
}

}  // namespace

std::string loaded_nccl_version() { return nccl_version_text(loaded_version()); }

std::string nccl_library_version() {
  return fmt::format("compiled {}, loaded {}", nccl_version_text(NCCL_VERSION_CODE), loaded_nccl_version());
}

Facts nccl_facts() {
  Facts facts = {{"NCCL", loaded_nccl_version()}, {"CUDA runtime", cuda_runtime_version()}};
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    if (name.starts_with("NCCL_") && !is_of_host(name) && name.size() < text.size())
      facts.emplace_back(name, text.substr(name.size() + 1));
  }
  std::ranges::sort(facts);
  return facts;
}

void require_nccl_version() {
  if (loaded_version() >= version_that_splits) return;
  throw SharedError(
      fmt::format("NCCL {} is loaded, and {} or later is needed: let LD_LIBRARY_PATH or the system's modules "
                  "name another (this program was built with {}), or use --device cpu",
                  loaded_nccl_version(), nccl_version_text(version_that_splits),
                  nccl_version_text(NCCL_VERSION_CODE)),
      ExitCode::usage);
}

bool nccl_keeps_launch_order() {
  const char* const setting = std::getenv(launch_order);
  const bool is_on = setting != nullptr && setting != std::string_view("0");
  return is_on && loaded_version() >= version_that_keeps_order;
}

void set_nccl_defaults() {
  // Inside a node and between nodes two communicators are at work at a time: their kernels start in the order
  // in which the host gives them, which is the same on all ranks.
  setenv(launch_order, "1", 0);
}

}  // namespace gpt
