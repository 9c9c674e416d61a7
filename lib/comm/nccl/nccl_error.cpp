#include "comm/nccl/nccl_error.hpp"

#include "base/error.hpp"
#include "base/list_some.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/statvfs.h>
#include <vector>

namespace gpt {
namespace {

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fmt::format("{} is not set", name) : fmt::format("{}={}", name, value);
}

/// Interfaces that are up, without the loopback.
std::vector<std::string> interfaces() {
  std::vector<std::string> names;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_useful = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (is_useful && std::ranges::find(names, entry->ifa_name) == names.end())
      names.emplace_back(entry->ifa_name);
  }
  freeifaddrs(list);
  return names;
}

/// NCCL keeps what ranks of a host exchange there, and containers often give 64 MB.
std::string shared_memory_advice() {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return "; /dev/shm cannot be looked at, and NCCL needs it";
  const double mebibyte = 0x1p20;
  const auto blocks = static_cast<double>(room.f_frsize);
  return fmt::format(
      "; /dev/shm has {:.1f} of {:.1f} MiB free, and NCCL takes about 10 MiB of it for each rank of a host: "
      "give more (--shm-size of containers), or set NCCL_SHM_DISABLE=1",
      static_cast<double>(room.f_bavail) * blocks / mebibyte,
      static_cast<double>(room.f_blocks) * blocks / mebibyte);
}

}  // namespace

std::string describe_nccl_error(ncclResult_t error, ncclComm_t comm) {
  std::string text = fmt::format("NCCL: {}", ncclGetErrorString(error));
  const char* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
  if (error == ncclSystemError || error == ncclUnhandledCudaError || error == ncclInternalError)
    text += shared_memory_advice();
  if (error == ncclRemoteError)
    text += "; another rank failed, or the network to it: its own message says more";
  else
    text += "; NCCL_DEBUG=WARN says more";
  return text;
}

void check_nccl(ncclResult_t result, ncclComm_t comm) {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error(describe_nccl_error(result, comm), ExitCode::rank_failed);
}

std::string network_advice() {
  return fmt::format(
      "{}, {}; interfaces here: {}. Name those that reach the other hosts in NCCL_SOCKET_IFNAME, "
      "NCCL_IB_DISABLE=1 does without InfiniBand, NCCL_DEBUG=INFO shows what NCCL tries",
      setting("NCCL_SOCKET_IFNAME"), setting("NCCL_IB_HCA"), list_some(interfaces()));
}

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f64:
      return ncclFloat64;
    case DType::i32:
      return ncclInt32;
  }
  return ncclUint8;
}

std::string nccl_version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace gpt
