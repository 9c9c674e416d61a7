#include "base/philox.hpp"
#include "comm/every_comm.hpp"
#include "support/faults.hpp"

#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

using test::Guarded;
using test::make_world;
using test::sum;
using test::value;

constexpr int64_t largest = 20'000;

enum class Kind { all_reduce, scatter_and_gather, broadcast };

/// A collective under way on data of its own.
struct Flight {
  Flight(Comm& among, Device& device)
      : comm(among), data(among, largest), ready(device.make_event()), done(device.make_event()) {}

  Comm& comm;
  Guarded<float> data;
  std::unique_ptr<Event> ready, done;
  int64_t count = 0;
  Kind kind = Kind::all_reduce;
  int root = 0;
  int64_t round = 0;

  void start(int64_t number, Queue& compute, Queue& communication) {
    round = number;
    const uint64_t bits = random_bits(17, static_cast<uint64_t>(number));  // the same on all ranks
    count = static_cast<int64_t>(bits % largest);
    kind = static_cast<Kind>((bits >> 32) % 3);
    root = static_cast<int>((bits >> 40) % static_cast<uint64_t>(comm.size()));
    for (int64_t i = 0; i < count; ++i) data[i] = static_cast<float>(value(comm.rank(), i + round));
    data.given(compute);
    compute.record(*ready);
    communication.wait(*ready);
    const Tensor part = data.tensor().flat({0, count});
    switch (kind) {
      case Kind::all_reduce:
        comm.all_reduce(part, part, communication);
        break;
      case Kind::scatter_and_gather:
        comm.reduce_scatter(part, communication);
        comm.all_gather(part, communication);
        break;
      case Kind::broadcast:
        comm.broadcast(part, root, communication);
        break;
    }
    data.take(communication);
    communication.record(*done);
  }

  int64_t wrong_when_done() {
    done->synchronize();
    return data.differences({0, count}, [this](int64_t i) {
      return kind == Kind::broadcast ? value(root, i + round) : sum(comm.size(), i + round);
    });
  }
};

}  // namespace

TEST_CASE("a thousand rounds on two communicators, with random delays in both threads, give the right sums") {
  constexpr int64_t rounds = 1000, under_way = 3;
  Device& device = test::device();
  const int ranks = make_world("")->size();
  const std::vector<std::string> layouts = test::layouts_for(ranks);
  for (const std::string& layout : layouts) {
    const auto world = make_world(layout);
    const int rank = world->rank();
    INFO("layout ", layout);
    const auto session = test::make_session(*world);
    const auto first = session->make({.block_bytes = 8192, .window = 3});
    const auto second =
        session->make({.inter = Inter::library, .wire_node = DType::bf16, .shared_memory = false});
    const auto compute = device.make_queue(), communication = device.make_communication_queue();
    std::vector<std::unique_ptr<Flight>> flights;
    for (int64_t i = 0; i < under_way; ++i)
      for (Comm* const comm : {first.get(), second.get()})
        flights.push_back(std::make_unique<Flight>(*comm, device));

    const test::Faults faults("comm.block:jitter=1", rank);
    int64_t wrong = 0;
    for (int64_t round = 0; round < rounds / std::ssize(layouts); ++round) {
      const uint64_t bits =
          random_bits(18, static_cast<uint64_t>(round), static_cast<uint64_t>(rank));  // of this rank
      if (bits % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits >> 32 & 1023U));
      Flight& flight = *flights[static_cast<size_t>(round % std::ssize(flights))];
      wrong += flight.wrong_when_done();
      flight.start(round, *compute, *communication);
    }
    for (const auto& flight : flights) wrong += flight->wrong_when_done();
    communication->synchronize();
    CHECK(wrong == 0);
  }
}

}  // namespace gpt
