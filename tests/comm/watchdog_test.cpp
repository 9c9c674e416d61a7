#include "comm/status_exchange.hpp"
#include "comm/world.hpp"
#include "train/rank_times.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <thread>

namespace gpt {
namespace {

struct TestWorld : World {
  TestWorld() : TestWorld(0, nullptr) {}

private:
  TestWorld(int argc, char** argv) : World(argc, argv) {}
};

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 400; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return false;
}

}  // namespace

TEST_CASE("rank 0 hears where every rank stands, again and again, and nothing is left under way") {
  const TestWorld world;
  for (int round = 0; round < 3; ++round) {
    std::atomic<int64_t> entered = 100 * round;
    StatusExchange exchange(3.0, [&] {
      return RankStatus{.entered = ++entered,
                        .phase = Phase::evaluation,
                        .step = world.rank() * 10,
                        .waiting = world.rank() % 2 == 1,
                        .quiet = world.rank() == 2 ? 2.5 : 0.25};
    });
    bool right = true;
    if (world.is_root()) {
      const auto all_heard = [&](int64_t least) {
        int rank = 0;
        for (const Sighting& sighting : exchange.sightings()) {
          const RankStatus& status = sighting.status;
          if (!sighting.heard || status.entered <= least || status.phase != Phase::evaluation ||
              status.step != rank * 10 || status.waiting != (rank % 2 == 1) ||
              status.quiet != (rank == 2 ? 2.5 : 0.25))
            return false;
          ++rank;
        }
        return rank == world.size();
      };
      right = comes_true([&] { return all_heard(100 * round); }) &&
              comes_true([&] { return all_heard(100 * round + 2); });
    } else {
      right = comes_true([&] { return exchange.since_asked() < 0.5; });
    }
    CHECK(right);
    world.barrier();
    exchange.finish();
    MPI_Status status;
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world.world(), &there, &status);
    CHECK(there == 0);
  }
}

TEST_CASE("a rank that does not answer grows silent, the others do not") {
  const TestWorld world;
  if (world.size() == 1) return;
  std::atomic<bool> stuck = false;
  const bool last = world.rank() == world.size() - 1;
  StatusExchange exchange(3.0, [&] {
    while (last && stuck) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return RankStatus{};
  });
  stuck = true;
  bool right = true;
  if (world.is_root()) {
    right = comes_true([&] {
      const auto sightings = exchange.sightings();
      return sightings.back().unanswered > 1.0 &&
             std::all_of(sightings.begin(), sightings.end() - 1,
                         [](const Sighting& other) { return other.unanswered < 0.8; });
    });
  }
  world.barrier();
  CHECK(right);
  if (last) CHECK(exchange.since_turn() > 0.5);
  stuck = false;
  exchange.finish();
}

TEST_CASE("step times of all ranks reach rank 0 in order, as means over an interval") {
  const TestWorld world;
  RankTimes times(world, 4);
  std::vector<IntervalTimes> received;
  for (int64_t step = 3; step <= 13; ++step) {  // as after a resume
    GpuStatus gpu{.watts = static_cast<double>(100 * step)};
    if (world.rank() == 1) gpu.celsius = 70;
    times.add(step,
              {.compute = static_cast<double>(step), .wait = 1.0 * world.rank(), .reduce = 0.5, .data = 0.25},
              gpu);
    if (auto interval = times.receive()) received.push_back(*interval);
  }
  while (times.pending())
    if (auto interval = times.receive(true)) received.push_back(*interval);
  if (!world.is_root()) {
    CHECK(received.empty());
    return;
  }
  REQUIRE(received.size() == 3);
  const int64_t steps[] = {2, 4, 4};
  const double compute[] = {3.5, 6.5, 10.5};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(received[i].step == static_cast<int64_t>(4 * (i + 1)));
    CHECK(received[i].steps == steps[i]);
    REQUIRE(received[i].of_rank.size() == static_cast<size_t>(world.size()));
    for (int rank = 0; rank < world.size(); ++rank) {
      const StepTimes& own = received[i].of_rank[static_cast<size_t>(rank)];
      CHECK(own.compute == compute[i]);
      CHECK(own.wait == 1.0 * rank);
      CHECK(own.reduce == 0.5);
      CHECK(own.data == 0.25);
      const GpuStatus& gpu = received[i].gpu_of_rank.at(static_cast<size_t>(rank));
      CHECK(gpu.watts == static_cast<double>(100 * received[i].step));
      CHECK(gpu.celsius == (rank == 1 ? std::optional<double>(70) : std::nullopt));
      CHECK_FALSE(gpu.memory_bytes.has_value());
    }
  }
}

}  // namespace gpt
