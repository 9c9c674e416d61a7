#include "communicator.hpp"

#include "../device.hpp"
#include "../failure.hpp"
#include "element.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <vector>

namespace standin {
namespace {

std::mutex& mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::vector<const ncclComm*>& alive() {
  static auto& all = *new std::vector<const ncclComm*>;
  return all;
}
std::string last_error;

const char* name(Meeting meeting) {
  switch (meeting) {
    case Meeting::all_reduce:
      return "all-reduce";
    case Meeting::reduce:
      return "reduce";
    case Meeting::broadcast:
      return "broadcast";
    case Meeting::all_gather:
      return "all-gather";
    case Meeting::reduce_scatter:
      return "reduce-scatter";
    case Meeting::finalize:
      return "finalize";
  }
  return "unknown";
}

bool is_blocking(const ncclConfig_t* config, const ncclComm* parent) {
  if (config && config->blocking != NCCL_CONFIG_UNDEF_INT) return config->blocking != 0;
  return !parent || parent->blocking;
}

}  // namespace

std::string describe(const Terms& terms) {
  if (terms.meeting == Meeting::finalize) return fmt::format("finalize after {} collectives", terms.serial);
  std::string text = fmt::format("collective {}: {} of {} {}", terms.serial, name(terms.meeting), terms.count,
                                 type_name(terms.type));
  switch (terms.meeting) {
    case Meeting::all_reduce:
    case Meeting::reduce_scatter:
      return text + ", " + reduction_name(terms.reduction);
    case Meeting::reduce:
      return text + fmt::format(", {}, root {}", reduction_name(terms.reduction), terms.root);
    case Meeting::broadcast:
      return text + fmt::format(", root {}", terms.root);
    default:
      return text;
  }
}

void check_terms(const Terms* of_ranks, int ranks) {
  const Terms* const end = of_ranks + ranks;
  if (std::all_of(of_ranks, end, [&](const Terms& terms) { return terms == *of_ranks; })) return;
  std::string text = "NCCL: the ranks of a communicator call different collectives";
  for (int rank = 0; rank < ranks; ++rank)
    text += fmt::format("\n  rank {}: {}", rank, describe(of_ranks[rank]));
  fail(text);
}

ncclComm* new_communicator(int rank, int size, const ncclConfig_t* config, const ncclComm* parent) {
  auto* comm = new ncclComm;
  comm->rank = rank;
  comm->size = size;
  comm->device = current_device();
  comm->blocking = is_blocking(config, parent);
  const std::scoped_lock lock(mutex());
  alive().push_back(comm);
  return comm;
}

bool is_alive(const ncclComm* comm) {
  const std::scoped_lock lock(mutex());
  return std::find(alive().begin(), alive().end(), comm) != alive().end();
}

void forget_communicator(ncclComm* comm) {
  const std::scoped_lock lock(mutex());
  std::erase(alive(), comm);
}

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
  const std::scoped_lock lock(mutex());
  last_error = why;
  return result;
}

}  // namespace standin

using namespace standin;

extern "C" {
const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const std::scoped_lock lock(mutex());
  text = last_error;
  return text.c_str();
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
}
