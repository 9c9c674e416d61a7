#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace standin {

/// In which order warps, lanes and blocks take their turn.
enum class Order { forward, reverse, shuffle };

/// When the work of a stream runs: when something waits for it, as soon as it is given, or at random moments.
enum class StreamMode { deferred, eager, racing };

/// What the environment says; the README lists the variables. Read once.
struct Settings {
  Order order = Order::forward;
  StreamMode streams = StreamMode::deferred;
  uint64_t seed = 1;
  std::string name = "CPU stand-in";
  size_t memory = size_t{4} << 30;  ///< bytes of each device
  size_t nccl_memory = 0;           ///< bytes that each communicator takes of its device
  double timeout = 60;              ///< seconds after which what does not move is a deadlock
  std::vector<uint32_t> devices;    ///< number in the UUID of each visible device
};

/// May be changed by the stand-in's own tests, while nothing runs.
Settings& settings();

/// Devices of a node of `count`, with the numbers `uuids` (empty: 0, 1, …), that CUDA_VISIBLE_DEVICES lets a
/// process see. As with CUDA, the first entry that names no device ends the list.
/// @param visible  the variable's value, or null when it is not set
std::vector<uint32_t> visible_devices(size_t count, const std::vector<uint32_t>& uuids, const char* visible);

/// A device's UUID as CUDA writes it, with the device's number in front: GPU-00000003-5374-…
std::string uuid_text(uint32_t number);

}  // namespace standin
