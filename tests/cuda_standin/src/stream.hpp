#pragma once

#include "call.hpp"

#include <chrono>
#include <cstdint>
#include <cuda_runtime.h>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace standin {

using Clock = std::chrono::steady_clock;

/// Work that runs as soon as it is its turn: a kernel, a copy.
struct Task {
  std::function<void()> run;
};
/// A function of the host, which may wait for locks of the caller: runs without ours.
struct HostTask {
  std::function<void()> run;
};
/// Work together with other processes: looked at until it says that it is done.
struct Exchange {
  std::function<bool()> progress;
  std::function<std::string()> describe;
};
/// Waits until another stream has done its first `position` pieces of work.
struct Wait {
  std::shared_ptr<CUstream_st> stream;
  uint64_t position;
};
using Work = std::variant<Task, HostTask, Exchange, Wait>;

}  // namespace standin

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  std::deque<standin::Work> queue;
  uint64_t done = 0;  ///< pieces of work that have run
  bool busy = false;  ///< a thread runs the first of the queue
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool is_default = false;

  uint64_t end() const { return done + queue.size(); }
};

struct CUevent_st {
  std::shared_ptr<CUstream_st> stream;  ///< null until it is recorded
  uint64_t position = 0;
  std::shared_ptr<std::optional<standin::Clock::time_point>> reached;
  unsigned flags = 0;
};

namespace standin {

/// The stream behind a handle; null means the current device's default stream. Ends the program for a handle
/// that was destroyed.
CUstream_st& stream_of(cudaStream_t handle);

/// Adds work behind all that the stream has. The default stream and streams made without
/// cudaStreamNonBlocking wait for each other, as with CUDA.
void enqueue(CUstream_st& stream, Work work, Call& call);

/// Runs what a stream has, up to a position, and all that this depends on.
void drain(CUstream_st& stream, uint64_t position, Call& call);
inline void drain(CUstream_st& stream, Call& call) { drain(stream, stream.end(), call); }
/// Runs everything that a device was given.
void drain_device(int device, Call& call);

/// Does a little work of the stream, if it can without waiting; where it has long waited, of all streams.
void nudge(CUstream_st& stream, Call& call);

std::shared_ptr<CUstream_st> new_stream(int device, unsigned flags, int priority);
/// Its work still runs.
void forget_stream(CUstream_st& stream);

/// Runs what can run without waiting, of all streams. @returns whether anything did
bool advance_all(Call& call);

}  // namespace standin
