#include "comm/comm.hpp"

#include "base/bfloat16.hpp"
#include "base/hash.hpp"
#include "comm/layouts.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

constexpr int64_t counts[] = {0, 1, 2, 3, 5, 1023, 1025, 100003};
constexpr int64_t small_chunk = 1000;

std::unique_ptr<World> make_world(const std::string& layout) {
  int argc = 0;
  char** argv = nullptr;
  auto world = std::make_unique<World>(argc, argv);
  world->set_layout({layout});
  return world;
}

// Every implementation on every layout that splits this job, with messages of any size and with small ones.
void on_every_comm(const std::function<void(Comm&, Queue&)>& check) {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const int ranks = make_world("")->size();
  for (const int64_t chunk : {default_chunk, small_chunk}) {
    const auto flat = make_mpi_comm(MPI_COMM_WORLD, chunk);
    INFO(flat->name(), ", chunk ", chunk);
    check(*flat, *queue);
    for (const std::string& layout : test::layouts_for(ranks)) {
      const auto world = make_world(layout);
      const auto comm = make_hierarchical_comm(*world, chunk);
      INFO(comm->name(), ", layout ", layout, ", chunk ", chunk);
      check(*comm, *queue);
    }
  }
}

// Integers whose sums over 8 ranks are exact even in bf16.
double value(int rank, int64_t i) { return static_cast<double>((i * 7 + rank * 5) % 17 - 8); }

double sum(int ranks, int64_t i) {
  double total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, i);
  return total;
}

constexpr double sentinel = -77;

double to_double(double number) { return number; }
double to_double(bfloat16 number) { return static_cast<float>(number); }

/// An array with sentinels on both sides.
template <class T>
class Guarded {
public:
  explicit Guarded(int64_t count)
      : count_(count), values_(static_cast<size_t>(count + 2 * guard), T(sentinel)) {}

  Tensor tensor() { return {values_.data() + guard, dtype_of<T>(), {count_}}; }
  T& operator[](int64_t i) { return values_[static_cast<size_t>(i + guard)]; }
  double at(int64_t i) const { return to_double(values_[static_cast<size_t>(i + guard)]); }
  int64_t size() const { return count_; }

  void fill(Range range, const std::function<double(int64_t)>& f) {
    for (int64_t i = range.begin; i < range.end; ++i) (*this)[i] = T(static_cast<float>(f(i)));
  }
  int64_t differences(Range range, const std::function<double(int64_t)>& f) const {
    int64_t wrong = 0;
    for (int64_t i = range.begin; i < range.end; ++i) wrong += at(i) != f(i);
    return wrong;
  }
  bool intact() const {
    for (int64_t i = 0; i < guard; ++i) {
      if (at(-1 - i) != sentinel || at(count_ + i) != sentinel) return false;
    }
    return true;
  }

private:
  static constexpr int64_t guard = 64;
  int64_t count_;
  std::vector<T> values_;
};

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
      Guarded<T> in(count), out(count);
      const auto mine = [&](int64_t i) { return value(comm.rank(), i); };
      const auto expected = [&](int64_t i) { return sum(comm.size(), i); };
      in.fill({0, count}, mine);
      comm.all_reduce(out.tensor(), in.tensor(), queue);
      CHECK(out.differences({0, count}, expected) == 0);
      CHECK(in.differences({0, count}, mine) == 0);

      comm.all_reduce(in.tensor(), in.tensor(), queue);
      CHECK(in.differences({0, count}, expected) == 0);
      CHECK(in.intact());
      CHECK(out.intact());
    }
  });
}

TEST_CASE("bf16 sums are rounded to nearest, ties to even") {
  on_every_comm([](Comm& comm, Queue& queue) {
    Guarded<bfloat16> data(40);
    // 256 + 3 lies between 258 and 260.
    data.fill({0, 40}, [&](int64_t) {
      return comm.rank() == 0 ? 256.0 : comm.rank() == comm.size() - 1 ? 3.0 : 0.0;
    });
    comm.all_reduce(data.tensor(), data.tensor(), queue);
    CHECK(data.differences({0, 40}, [&](int64_t) { return comm.size() == 1 ? 256.0 : 260.0; }) == 0);
  });
}

TEST_CASE("after all_reduce all ranks hold the same bits") {
  on_every_comm([](Comm& comm, Queue& queue) {
    std::vector<float> data(4099);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = 1.0F / static_cast<float>(1 + i * 3 + static_cast<size_t>(comm.rank()) * 7);
    }
    const Tensor tensor(data.data(), DType::f32, {std::ssize(data)});
    comm.all_reduce(tensor, tensor, queue);
    const uint64_t digest = hash_bytes(data.data(), data.size() * sizeof(float));
    uint64_t lowest = 0, highest = 0;
    MPI_Allreduce(&digest, &lowest, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&digest, &highest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK(lowest == highest);
  });
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
  on_every_comm([](Comm& comm, Queue&) {
    if (comm.name().starts_with("flat"))
      CHECK(comm.owned(comm.size() * Comm::alignment).size() == Comm::alignment);
  });
  const int ranks = make_world("")->size();
  const std::string halves = fmt::format("{0},{0}", ranks / 2);
  if (std::ranges::count(test::layouts_for(ranks), halves) > 0) {
    const auto world = make_world(halves);
    CHECK(make_hierarchical_comm(*world)->owned(ranks * 3 * Comm::alignment).size() == 3 * Comm::alignment);
  }
}

TEST_CASE_TEMPLATE("reduce_scatter leaves the exact sum in the owned part and the tail", T, float, bfloat16,
                   double) {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      Guarded<T> data(count);
      data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
      comm.reduce_scatter(data.tensor(), queue);
      const auto expected = [&](int64_t i) { return sum(comm.size(), i); };
      CHECK(data.differences(comm.owned(count), expected) == 0);
      CHECK(data.differences(comm.tail(count), expected) == 0);
      CHECK(data.intact());
    }
  });
}

TEST_CASE_TEMPLATE("all_gather brings every owner's part and leaves the tail", T, float, bfloat16, double) {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      const Range tail = comm.tail(count);
      Guarded<T> data(count);
      data.fill({0, count}, [](int64_t) { return 99.0; });
      data.fill(comm.owned(count), [](int64_t i) { return value(1, i); });
      data.fill(tail, [&](int64_t) { return comm.rank(); });
      comm.all_gather(data.tensor(), queue);
      CHECK(data.differences({0, tail.begin}, [](int64_t i) { return value(1, i); }) == 0);
      CHECK(data.differences(tail, [&](int64_t) { return comm.rank(); }) == 0);
      CHECK(data.intact());
    }
  });
}

TEST_CASE("reduce_scatter and all_gather together are all_reduce") {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (const int64_t count : counts) {
      INFO("count ", count);
      Guarded<float> data(count);
      data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
      comm.reduce_scatter(data.tensor(), queue);
      comm.all_gather(data.tensor(), queue);
      CHECK(data.differences({0, count}, [&](int64_t i) { return sum(comm.size(), i); }) == 0);
    }
  });
}

TEST_CASE("broadcast brings the root's values from every root") {
  on_every_comm([](Comm& comm, Queue& queue) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const int64_t count : {0, 1, 2501}) {
        INFO("root ", root, ", count ", count);
        Guarded<float> data(count);
        data.fill({0, count}, [&](int64_t i) { return value(comm.rank(), i); });
        comm.broadcast(data.tensor(), root, queue);
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
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const int64_t entered = clock::now().time_since_epoch().count();
    comm.barrier(queue);
    const int64_t left = clock::now().time_since_epoch().count();
    int64_t last_entered = 0;
    MPI_Allreduce(&entered, &last_entered, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK(left >= last_entered);
  });
}

}  // namespace gpt
