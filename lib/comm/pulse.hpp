#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace gpt {

/// What a rank is doing. All ranks enter phases in the same order.
enum class Phase : int64_t { start, load, step, evaluation, save, sample, end };

constexpr std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::start:
      return "start";
    case Phase::load:
      return "load";
    case Phase::step:
      return "step";
    case Phase::evaluation:
      return "evaluation";
    case Phase::save:
      return "save";
    case Phase::sample:
      return "sample";
    case Phase::end:
      return "end";
  }
  return "unknown phase";
}

/// Where a rank stands, as it tells the others.
struct RankStatus {
  int64_t entered = 0;  ///< phases entered so far: comparable between ranks
  Phase phase = Phase::start;
  int64_t step = 0;
  bool waiting = false;  ///< for other ranks, in a call that cannot end without them
  double quiet = 0.0;    ///< seconds since the last tick

  bool operator==(const RankStatus&) const = default;
};

/// Signs of life of a rank's main thread, read by its watchdog: a few atomic operations each, no lock.
class Pulse {
public:
  void enter(Phase phase, int64_t step) {
    position_.store(static_cast<uint64_t>(step) << phase_bits | static_cast<uint64_t>(phase),
                    std::memory_order_relaxed);
    entered_.fetch_add(1, std::memory_order_relaxed);
    tick();
  }
  void tick() { ticks_.fetch_add(1, std::memory_order_relaxed); }
  void begin_wait() { waits_.fetch_add(1, std::memory_order_relaxed); }
  void end_wait() {
    waits_.fetch_sub(1, std::memory_order_relaxed);
    tick();
  }

  uint64_t ticks() const { return ticks_.load(std::memory_order_relaxed); }
  /// All but `quiet`.
  RankStatus status() const {
    const uint64_t position = position_.load(std::memory_order_relaxed);
    return {.entered = entered_.load(std::memory_order_relaxed),
            .phase = static_cast<Phase>(position & ((1U << phase_bits) - 1)),
            .step = static_cast<int64_t>(position >> phase_bits),
            .waiting = waits_.load(std::memory_order_relaxed) > 0};
  }

private:
  static constexpr int phase_bits = 4;

  std::atomic<uint64_t> position_{0};  // step and phase in one word, so that they belong together
  std::atomic<int64_t> entered_{0};
  std::atomic<uint64_t> ticks_{0};
  std::atomic<int> waits_{0};
};

}  // namespace gpt
