#include "comm/comm.hpp"

#include "base/error.hpp"
#include "comm/every_comm.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t counts[] = {0, 1, 2, 3, 5, 1023, 1025, 100003};
using test::Guarded;
using test::make_world;
using test::on_every_comm;
using test::on_every_way;
using test::sum;
using test::value;
using test::Way;

// The ranks' owned ranges of `count` elements, by rank.
std::vector<Range> gather_owned(const Comm& comm, int64_t count) {
  const Range own = comm.owned(count);
  std::vector<Range> all(static_cast<size_t>(comm.size()));
  MPI_Allgather(&own, 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, MPI_COMM_WORLD);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("all_reduce gives every rank the exact sum, in place and out of place", T, float, bfloat16,
                   double) {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      Guarded<T> in(comm, count), out(comm, count);
      const auto mine = [&](int64_t i) { return value(comm.rank(), i); };
      const auto expected = [&](int64_t i) { return sum(comm.size(), i); };
      in.fill({0, count}, mine);
      comm.all_reduce(out.given(queue), in.given(queue), queue);
      in.take(queue);
      out.fetch(queue);
      CHECK(out.differences({0, count}, expected) == 0);
      CHECK(in.differences({0, count}, mine) == 0);

      comm.all_reduce(in.given(queue), in.tensor(), queue);
      in.fetch(queue);
      CHECK(in.differences({0, count}, expected) == 0);
      CHECK(in.intact());
      CHECK(out.intact());
    }
  });
}

TEST_CASE("bf16 sums are rounded to nearest, ties to even") {
  on_every_comm([](Comm& comm, Queue& queue) {
    Guarded<bfloat16> data(comm, 40);
    // 256 + 3 lies between 258 and 260.
    data.fill({0, 40}, [&](int64_t) {
      return comm.rank() == 0 ? 256.0 : comm.rank() == comm.size() - 1 ? 3.0 : 0.0;
    });
    comm.all_reduce(data.given(queue), data.tensor(), queue);
    data.fetch(queue);
    CHECK(data.differences({0, 40}, [&](int64_t) { return comm.size() == 1 ? 256.0 : 260.0; }) == 0);
  });
}

float harmonic(int rank, int64_t i) { return 1.0F / static_cast<float>(1 + i * 3 + rank * 7); }

TEST_CASE("after all_reduce all ranks hold the same bits, near the sum") {
  on_every_way([](Comm& comm, Queue& queue, const Way& way) {
    Guarded<float> data(comm, 40099);
    for (int64_t i = 0; i < data.size(); ++i) data[i] = harmonic(comm.rank(), i);
    comm.all_reduce(data.given(queue), data.tensor(), queue);
    data.fetch(queue);
    CHECK(test::same_everywhere(&data[0], static_cast<size_t>(data.tensor().bytes())));
    const double rounding = way.rounds() ? 0x1p-6 : 0x1p-22;
    for (int64_t i = 0; i < data.size(); ++i) {
      double exact = 0.0;
      for (int rank = 0; rank < comm.size(); ++rank) exact += static_cast<double>(harmonic(rank, i));
      if (std::abs(data.at(i) - exact) > rounding * exact)
        FAIL("element ", i, ": ", data.at(i), " for ", exact);
    }
  });
}

TEST_CASE("reduce_scatter leaves the bits that all_reduce leaves") {
  on_every_way([](Comm& comm, Queue& queue, const Way& way) {
    if (way.is_by_library()) return;  // it promises nothing of the kind
    Guarded<float> whole(comm, 40099), parts(comm, 40099);
    for (int64_t i = 0; i < whole.size(); ++i) whole[i] = parts[i] = harmonic(comm.rank(), i);
    comm.all_reduce(whole.given(queue), whole.tensor(), queue);
    whole.fetch(queue);
    comm.reduce_scatter(parts.given(queue), queue);
    parts.fetch(queue);
    for (const Range range : {comm.owned(whole.size()), comm.tail(whole.size())})
      CHECK(parts.differences(range, [&](int64_t i) { return whole.at(i); }) == 0);
  });
}

TEST_CASE("all_gather copies every bit, whatever sums travel as") {
  on_every_comm([](Comm& comm, Queue& queue) {
    Guarded<float> data(comm, 40099);
    for (int64_t i = 0; i < data.size(); ++i) data[i] = 0.0F;
    const Range own = comm.owned(data.size());
    for (int64_t i = own.begin; i < own.end; ++i) data[i] = harmonic(3, i);
    comm.all_gather(data.given(queue), queue);
    data.fetch(queue);
    CHECK(data.differences({0, comm.tail(data.size()).begin},
                           [](int64_t i) { return static_cast<double>(harmonic(3, i)); }) == 0);
  });
}

TEST_CASE("owned parts inside a node: each node holds all sums, every gather stays inside") {
  const auto queue = test::device().make_queue();
  for (const std::string& layout : test::layouts_for(make_world("")->size())) {
    const auto world = make_world(layout);
    const auto session = test::make_session(*world);
    const auto comm = session->make({.sharding = Sharding::node, .block_bytes = 4096});
    INFO(comm->name(), ", layout ", layout);
    Guarded<float> data(*comm, 100003);
    data.fill({0, data.size()}, [&](int64_t i) { return value(comm->rank(), i); });
    comm->reduce_scatter(data.given(*queue), *queue);
    data.fetch(*queue);
    const auto expected = [&](int64_t i) { return sum(comm->size(), i); };
    const Range own = comm->owned(data.size()), tail = comm->tail(data.size());
    CHECK(data.differences(own, expected) == 0);
    CHECK(data.differences(tail, expected) == 0);
    int64_t held = own.size();
    MPI_Allreduce(MPI_IN_PLACE, &held, 1, MPI_INT64_T, MPI_SUM, world->node());
    CHECK(held == tail.begin);
    data.fill(own, [&](int64_t) { return world->node_index(); });
    comm->all_gather(data.given(*queue), *queue);
    data.fetch(*queue);
    CHECK(data.differences({0, tail.begin}, [&](int64_t) { return world->node_index(); }) == 0);
    CHECK(data.differences(tail, expected) == 0);
  }
}

TEST_CASE("owned parts are equal, aligned, disjoint and cover everything but the tail") {
  on_every_comm([](Comm& comm, Queue&) {
    for (const int64_t count :
         {int64_t{0}, int64_t{15}, int64_t{1024}, int64_t{100003}, int64_t{3'000'000'011}}) {
      INFO("count ", count);
      std::vector<Range> owned = gather_owned(comm, count);
      const Range tail = comm.tail(count);
      std::erase_if(owned, [](const Range& range) { return range.empty(); });
      std::ranges::sort(owned, {}, &Range::begin);
      int64_t end = 0;
      for (const Range& range : owned) {
        CHECK(range.begin == end);
        CHECK(range.size() == owned.front().size());
        CHECK(range.begin % Comm::alignment == 0);
        end = range.end;
      }
      CHECK(tail == Range{end, count});
      CHECK(tail.size() < comm.size() * Comm::alignment);
    }
  });
}

TEST_CASE("with even nodes every rank owns a part") {
  on_every_way([](Comm& comm, Queue&, const Way& way) {
    if (way.is_flat()) CHECK(comm.owned(comm.size() * Comm::alignment).size() == Comm::alignment);
  });
  const int ranks = make_world("")->size();
  const std::string halves = fmt::format("{0},{0}", ranks / 2);
  if (std::ranges::count(test::layouts_for(ranks), halves) > 0) {
    const auto world = make_world(halves);
    const auto session = test::make_session(*world);
    CHECK(session->make({})->owned(ranks * 3 * Comm::alignment).size() == 3 * Comm::alignment);
  }
}

TEST_CASE_TEMPLATE("reduce_scatter leaves the exact sum in the owned part and the tail", T, float, bfloat16,
                   double) {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      Guarded<T> data(comm, count);
      data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
      comm.reduce_scatter(data.given(queue), queue);
      data.fetch(queue);
      const auto expected = [&](int64_t i) { return sum(comm.size(), i); };
      CHECK(data.differences(comm.owned(count), expected) == 0);
      CHECK(data.differences(comm.tail(count), expected) == 0);
      CHECK(data.intact());
    }
  });
}

TEST_CASE_TEMPLATE("all_gather brings every owner's part and leaves the tail", T, float, bfloat16, double,
                   int32_t) {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      const Range tail = comm.tail(count);
      Guarded<T> data(comm, count);
      data.fill({0, count}, [](int64_t) { return 99.0; });
      data.fill(comm.owned(count), [](int64_t i) { return value(1, i); });
      data.fill(tail, [&](int64_t) { return comm.rank(); });
      comm.all_gather(data.given(queue), queue);
      data.fetch(queue);
      CHECK(data.differences({0, tail.begin}, [](int64_t i) { return value(1, i); }) == 0);
      CHECK(data.differences(tail, [&](int64_t) { return comm.rank(); }) == 0);
      CHECK(data.intact());
    }
  });
}

TEST_CASE("integers are copied but not summed") {
  on_every_comm([](Comm& comm, Queue& queue) {
    Guarded<int32_t> data(comm, 1025);
    data.fill({0, data.size()}, [](int64_t i) { return static_cast<double>(i); });
    CHECK_THROWS_AS(comm.all_reduce(data.tensor(), data.tensor(), queue), Error);
    CHECK_THROWS_AS(comm.reduce_scatter(data.tensor(), queue), Error);
    CHECK(data.differences({0, data.size()}, [](int64_t i) { return static_cast<double>(i); }) == 0);
    comm.broadcast(data.given(queue), 0, queue);
    data.fetch(queue);
    CHECK(data.intact());
  });
}

TEST_CASE("blocks and windows that nothing can count are refused") {
  const auto world = make_world("");
  const auto session = test::make_session(*world);
  for (const CommPlan& plan :
       {CommPlan{.block_bytes = int64_t{8} << 30}, CommPlan{.block_bytes = -1}, CommPlan{.window = 0},
        CommPlan{.window = int64_t{1} << 40}, CommPlan{.chunk = 0}, CommPlan{.chunk = int64_t{1} << 31}})
    CHECK_THROWS_AS(session->make(plan), Error);
  CHECK_THROWS_AS(session->make({.reduction = Reduction::flat, .chunk = int64_t{1} << 31}), Error);
}

TEST_CASE("reduce_scatter and all_gather together are all_reduce") {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      Guarded<float> data(comm, count);
      data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
      comm.reduce_scatter(data.given(queue), queue);
      data.fetch(queue);
      comm.all_gather(data.given(queue), queue);
      data.fetch(queue);
      CHECK(data.differences({0, count}, [&](int64_t i) { return sum(comm.size(), i); }) == 0);
    }
  });
}

TEST_CASE("broadcast brings the root's values from every root") {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const int64_t count : {0, 1, 2501}) {
        INFO("root ", root, ", count ", count);
        Guarded<float> data(comm, count);
        data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
        comm.broadcast(data.given(queue), root, queue);
        data.fetch(queue);
        CHECK(data.differences({0, count}, [&](int64_t i) { return value(root, i); }) == 0);
        CHECK(data.intact());
      }
    }
  });
}

TEST_CASE("nobody passes a barrier before the last has come") {
  using clock = std::chrono::steady_clock;  // one clock for all processes of a host
  on_every_comm([](Comm& comm, Queue& queue) {
    comm.barrier(queue);
    queue.synchronize();
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const int64_t entered = clock::now().time_since_epoch().count();
    comm.barrier(queue);
    queue.synchronize();
    const int64_t left = clock::now().time_since_epoch().count();
    int64_t last_entered = 0;
    MPI_Allreduce(&entered, &last_entered, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK(left >= last_entered);
  });
}

}  // namespace gpt
