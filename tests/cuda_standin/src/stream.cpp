#include "stream.hpp"

#include "background.hpp"
#include "device.hpp"
#include "failure.hpp"
#include "memory.hpp"
#include "random.hpp"
#include "settings.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace standin {
namespace {

constexpr auto kGlance = std::chrono::microseconds(50);
/// So long a stream waits for other processes before the work of other streams goes on, as it would on a
/// device.
constexpr auto kPatience = std::chrono::milliseconds(20);

std::vector<std::shared_ptr<CUstream_st>>& streams() {
  static auto& all = *new std::vector<std::shared_ptr<CUstream_st>>;
  return all;
}
/// Destroyed with work that has not run.
std::vector<std::shared_ptr<CUstream_st>>& forgotten() {
  static auto& all = *new std::vector<std::shared_ptr<CUstream_st>>;
  return all;
}

CUstream_st& default_stream(int device) {
  for (const auto& stream : streams())
    if (stream->is_default && stream->device == device) return *stream;
  const auto stream = new_stream(device, cudaStreamDefault, 0);
  stream->is_default = true;
  return *stream;
}

bool blocking(const CUstream_st& stream) { return (stream.flags & cudaStreamNonBlocking) == 0; }

/// What implicit ordering makes `stream` wait for: blocking streams and the default stream of a device.
std::vector<Wait> implicit_waits(const CUstream_st& stream) {
  std::vector<Wait> waits;
  if (!blocking(stream)) return waits;
  for (const auto* list : {&streams(), &forgotten()})
    for (const auto& other : *list)
      if (other.get() != &stream && other->device == stream.device && blocking(*other) &&
          (stream.is_default || other->is_default) && !other->queue.empty())
        waits.push_back({other, other->end()});
  return waits;
}

Random& random() {
  static Random generator(settings().seed + 1);
  return generator;
}

/// When some stream's work was done last.
Clock::time_point last_done{};

void pop(CUstream_st& stream) {
  stream.queue.pop_front();
  ++stream.done;
  last_done = Clock::now();
}

/// The time in which a thread runs the first work of a stream.
class Turn {
public:
  explicit Turn(CUstream_st& stream) : stream_(stream.shared_from_this()) { stream.busy = true; }
  ~Turn() {
    stream_->busy = false;
    pop(*stream_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

private:
  std::shared_ptr<CUstream_st> stream_;
};

bool finished(CUstream_st& stream, const Exchange& exchange) {
  open_device_memory();
  try {
    return exchange.progress();
  } catch (...) {
    pop(stream);
    throw;
  }
}

/// Runs the first work of a stream, or that of what it waits for.
/// @returns false if it waits for another process or thread
bool advance(CUstream_st& stream, Call& call) {
  if (stream.queue.empty() || stream.busy) return false;
  Work& work = stream.queue.front();
  if (const Wait* wait = std::get_if<Wait>(&work)) {
    if (wait->stream->done < wait->position) {
      const auto awaited = wait->stream;
      return advance(*awaited, call);
    }
    pop(stream);
  } else if (const Exchange* exchange = std::get_if<Exchange>(&work)) {
    if (!finished(stream, *exchange)) return false;
    pop(stream);
  } else if (const Task* task = std::get_if<Task>(&work)) {
    const Turn turn(stream);
    open_device_memory();
    task->run();
  } else {
    const Turn turn(stream);
    call.without_lock(std::get<HostTask>(work).run);
  }
  return true;
}

/// One piece of work of some other stream.
void advance_any(Call& call) {
  const auto& all = streams();
  if (all.empty()) return;
  const auto chosen = all[random().below(all.size())];
  advance(*chosen, call);
}

std::string describe_wait(const CUstream_st& stream) {
  if (stream.busy) return "a function of the host";
  if (stream.queue.empty()) return "nothing";
  if (const Wait* wait = std::get_if<Wait>(&stream.queue.front())) return describe_wait(*wait->stream);
  if (const auto* exchange = std::get_if<Exchange>(&stream.queue.front())) return exchange->describe();
  return "its turn";
}

}  // namespace

CUstream_st& stream_of(cudaStream_t handle) {
  if (!handle) return default_stream(current_device());
  for (const auto& stream : streams())
    if (stream.get() == handle) return *stream;
  fail("stream {} was destroyed or never created", fmt::ptr(handle));
}

void enqueue(CUstream_st& stream, Work work, Call& call) {
  work_in_background(!std::holds_alternative<Task>(work));
  for (Wait& wait : implicit_waits(stream)) stream.queue.emplace_back(std::move(wait));
  stream.queue.push_back(std::move(work));
  if (settings().streams == StreamMode::eager)
    while (advance(stream, call)) {
    }
  else if (settings().streams == StreamMode::racing && random().below(4) == 0)
    advance_any(call);
}

void drain(CUstream_st& stream, uint64_t position, Call& call) {
  const auto kept = stream.shared_from_this();
  auto moved = Clock::now();
  while (stream.done < position) {
    if (settings().streams == StreamMode::racing && random().below(2) == 0) advance_any(call);
    if (advance(stream, call)) {
      moved = Clock::now();
      continue;
    }
    call.without_lock([] { std::this_thread::sleep_for(kGlance); });
    const auto waited = Clock::now() - moved;
    if (waited > kPatience && advance_all(call)) continue;
    if (std::chrono::duration<double>(waited).count() > settings().timeout)
      fail("deadlock: for {} s a stream has waited for {}", settings().timeout, describe_wait(stream));
  }
}

void drain_device(int device, Call& call) {
  for (const auto* list : {&streams(), &forgotten()}) {
    const auto copy = *list;
    for (const auto& stream : copy)
      if (stream->device == device) drain(*stream, call);
  }
  std::erase_if(forgotten(), [](const auto& stream) { return stream->queue.empty(); });
}

void nudge(CUstream_st& stream, Call& call) {
  if (!advance(stream, call) && Clock::now() - last_done > kPatience) advance_all(call);
}

std::shared_ptr<CUstream_st> new_stream(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  streams().push_back(stream);
  return stream;
}

void forget_stream(CUstream_st& stream) {
  const auto kept = stream.shared_from_this();
  std::erase(streams(), kept);
  if (!kept->queue.empty()) forgotten().push_back(kept);
}

bool advance_all(Call& call) {
  bool moved = false;
  for (const auto* list : {&streams(), &forgotten()}) {
    const auto copy = *list;
    for (const auto& stream : copy) moved = advance(*stream, call) || moved;
  }
  return moved;
}

}  // namespace standin
